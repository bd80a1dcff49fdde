"""A machine of the cluster: namespaces of its own, held by their first process, and operations on all of it."""

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
    """Settings that all machines of a cluster share."""

    #: The folder that each machine sees.
    shared: Path
    #: Folders below /tmp and /dev/shm that all machines see, although these two are each machine's own.
    visible: tuple[Path, ...]

    def door(self, name: str) -> Path:
        """Returns the socket at which the machine of that name takes requests."""
        return self.shared / "doors" / name


class Machine:
    """A machine with its own host name, /tmp, /dev/shm and process ids, in the network of the process that makes it."""

    _spaces: tuple[str, ...] = ("--mount", "--uts", "--ipc", "--pid")

    def __init__(self, name: str, address: str, site: Site) -> None:
        self.name, self.address = name, address
        self._site = site
        self._first: subprocess.Popen[str] | None = None
        #: The process id of the first process, on the host. The machine lives as long as this process.
        self.pid = 0

    def __repr__(self) -> str:
        return f"<{self.name} {self.address} {f'process {self.pid}' if self.pid else 'down'}>"

    def begin(self) -> None:
        """Begins to boot. ``boot`` waits for the end of it."""
        visible = [str(path) for path in self._site.visible]
        plan = {"name": self.name, "shared": str(self._site.shared), "visible": visible}
        python = [sys.executable, "-I", "-S", _DOOR, json.dumps(plan)]
        self._first = subprocess.Popen(
            ["unshare", *self._spaces, "--fork", *python],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            # A release of unshare prints an error when its command is killed.
            stderr=subprocess.DEVNULL,
            start_new_session=True,
            text=True,
        )

    def boot(self) -> None:
        """Boots the machine, for the first time or after it was killed."""
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
        """Starts a command. ``env`` is added to this process's environment. The folder is this process's by default."""
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
        """Runs a command to its end and returns what it printed. With ``check``, raises if the command fails."""
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
        """Returns the process ids, on the host, of all that runs on the machine except the first process."""
        return in_namespace_of(self.pid)

    def freeze(self) -> None:
        """Stops all processes on the machine. Seen from outside, connections are accepted and nothing is answered."""
        self._signal_all("STOP")
        # A process that waits for a child which has not begun its program yet stays in the kernel.
        until(lambda: set(states(self.processes()).values()) <= set("TtZXD"))

    def thaw(self) -> None:
        """Lets all processes go on."""
        self._signal_all("CONT")

    def _signal_all(self, name: str) -> None:
        # The kernel leaves out the sender and the first process, and fails if there are no others.
        self.run(["sh", "-c", f"kill -s {name} -- -1"], check=False)

    def kill(self) -> None:
        """Kills everything on the machine at once."""
        if self._first is None:
            return
        if self.pid:
            os.kill(self.pid, signal.SIGKILL)
        # Closing the standard input ends a machine that has not booted yet.
        assert self._first.stdin
        self._first.stdin.close()
        # The kernel ends the first process only when all other processes of the machine are gone.
        self._first.wait()
        assert self._first.stdout
        self._first.stdout.close()
        self._first, self.pid = None, 0
