"""A machine of the cluster: namespaces of its own, held by their first process, and what can be done to all of it."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Unpack

from cluster.process import Process, Streams
from cluster.waiting import in_namespace_of, states, until

_DOOR = str(Path(__file__).with_name("door.py"))


@dataclass(frozen=True)
class Site:
    """What all machines of a cluster have in common."""

    #: The folder that each of them sees.
    shared: Path
    #: Folders below /tmp and /dev/shm, which are each machine's own, that all see nevertheless.
    visible: tuple[Path, ...]

    def door(self, name: str) -> Path:
        """The socket at which the machine of that name takes requests."""
        return self.shared / "doors" / name


class Machine:
    """A host name, /tmp, /dev/shm and process ids of its own; this class leaves it in the network it is made in."""

    _spaces: tuple[str, ...] = ("--mount", "--uts", "--ipc", "--pid")

    def __init__(self, name: str, address: str, site: Site) -> None:
        self.name, self.address = name, address
        self._site = site
        self._first: subprocess.Popen[str] | None = None
        #: The process id, on the host, of the first process: while it lives, so does the machine.
        self.pid = 0

    def __repr__(self) -> str:
        return f"<{self.name} {self.address} {f'process {self.pid}' if self.pid else 'down'}>"

    def begin(self) -> None:
        """Begins to boot; ``boot`` waits for the end of it."""
        visible = [str(path) for path in self._site.visible]
        plan = {"name": self.name, "shared": str(self._site.shared), "visible": visible}
        python = [sys.executable, "-I", "-S", _DOOR, json.dumps(plan)]
        self._first = subprocess.Popen(
            ["unshare", *self._spaces, "--fork", *python],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            # A release of unshare complains of itself when what it runs is killed.
            stderr=subprocess.DEVNULL,
            start_new_session=True,
            text=True,
        )

    def boot(self) -> None:
        """Boots it, for the first time or after it was killed."""
        if self._first is None:
            self.begin()
        assert self._first
        assert self._first.stdout
        said = self._first.stdout.readline().strip()
        if not said.isdigit():
            raise OSError(f"{self.name} does not boot: {said}")
        self.pid = int(said)

    def start(
        self,
        command: Sequence[str | Path],
        *,
        env: Mapping[str, str] | None = None,
        cwd: Path | None = None,
        **streams: Unpack[Streams],
    ) -> Process:
        """Starts a command; ``env`` is added to this process's environment, the folder is this one's unless given."""
        return Process(self._site.door(self.name), command, env, cwd, **streams)

    def run(
        self,
        command: Sequence[str | Path],
        *,
        env: Mapping[str, str] | None = None,
        cwd: Path | None = None,
        input: str | None = None,
        check: bool = True,
    ) -> subprocess.CompletedProcess[str]:
        """Runs a command to its end, which must be a good one if ``check``; gives what it printed."""
        pipe = subprocess.PIPE
        stdin = subprocess.DEVNULL if input is None else pipe
        with self.start(
            command, env=env, cwd=cwd, stdin=stdin, stdout=pipe, stderr=pipe
        ) as process:
            printed, errors = process.communicate(input)
            status = process.wait()
        if check and status:
            error = subprocess.CalledProcessError(status, process.args, printed, errors)
            error.add_note(f"on {self.name}: {printed}{errors}")
            raise error
        return subprocess.CompletedProcess(process.args, status, printed, errors)

    def processes(self) -> list[int]:
        """The process ids, on the host, of all that runs on it but the first process."""
        return in_namespace_of(self.pid)

    def freeze(self) -> None:
        """Stops all processes on it, as seen from outside: connections are taken, nothing is answered."""
        self._signal_all("STOP")
        # Who waits for a child that has not begun its program yet stays in the kernel.
        until(lambda: set(states(self.processes()).values()) <= set("TtZXD"))

    def thaw(self) -> None:
        """Lets all processes go on."""
        self._signal_all("CONT")

    def _signal_all(self, name: str) -> None:
        # The kernel leaves out whoever asks and the first process, and fails if there is nobody else.
        self.run(["sh", "-c", f"kill -s {name} -- -1"], check=False)

    def kill(self) -> None:
        """Kills everything on it at once."""
        if self._first is None:
            return
        if self.pid:
            os.kill(self.pid, signal.SIGKILL)
        # The lifeline's end, for one that has not booted yet.
        assert self._first.stdin
        self._first.stdin.close()
        # Its end is waited for by the kernel until nothing of it is left.
        self._first.wait()
        assert self._first.stdout
        self._first.stdout.close()
        self._first, self.pid = None, 0
