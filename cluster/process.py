"""A process on a machine of the cluster."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import IO, TypedDict, Unpack

_ENTER = str(Path(__file__).with_name("enter.py"))


class Streams(TypedDict, total=False):
    """The standard streams, as ``subprocess.Popen`` takes them. The input is empty by default."""

    stdin: int | IO[str] | None
    stdout: int | IO[str] | None
    stderr: int | IO[str] | None


class Process:
    """Counterpart of ``subprocess.Popen`` for a process on a machine. ``pid`` is its process id on the host."""

    def __init__(
        self,
        door: Path,
        command: Sequence[str | Path],
        env: Mapping[str, str] | None = None,
        cwd: Path | None = None,
        **streams: Unpack[Streams],
    ) -> None:
        self.args = [str(part) for part in command]
        hear, tell = os.pipe()
        enter = [sys.executable, "-I", "-S", _ENTER, str(door), str(tell)]
        with open(hear) as report:
            self._outer = subprocess.Popen(
                [*enter, *self.args],
                env={**os.environ, **(env or {})},
                cwd=cwd,
                pass_fds=[tell],
                # Ctrl-C in a terminal is for the test, which then ends the cluster.
                start_new_session=True,
                text=True,
                stdin=streams.get("stdin", subprocess.DEVNULL),
                stdout=streams.get("stdout"),
                stderr=streams.get("stderr"),
            )
            os.close(tell)
            said = report.read()
        if not said.isdigit():
            self._outer.communicate()
            raise OSError(said)
        self.pid = int(said)
        self.stdin, self.stdout, self.stderr = (
            self._outer.stdin,
            self._outer.stdout,
            self._outer.stderr,
        )

    @property
    def returncode(self) -> int | None:
        """The exit status, or the signal's number negated; ``None`` if the end of the process was not seen yet."""
        return self._outer.returncode

    def poll(self) -> int | None:
        """Returns the exit status if the process has ended, otherwise ``None``."""
        return self._outer.poll()

    def wait(self, timeout: float | None = None) -> int:
        """Waits for the end of the process and returns its exit status."""
        return self._outer.wait(timeout)

    def communicate(self, text: str | None = None, timeout: float | None = None) -> tuple[str, str]:
        """Writes to the process, reads from it to the end, and waits for it."""
        return self._outer.communicate(text, timeout)

    def send_signal(self, number: int) -> None:
        """Sends a signal to the process if it still runs."""
        if self.poll() is None:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.pid, number)

    def terminate(self) -> None:
        """Asks the process to end."""
        self.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        """Kills the process."""
        self.send_signal(signal.SIGKILL)

    def end(self) -> None:
        """Kills the process and everything in its session, and closes its streams."""
        if self.poll() is None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self.pid, signal.SIGKILL)
        self._outer.wait()
        for stream in (self.stdin, self.stdout, self.stderr):
            if stream:
                stream.close()

    def __enter__(self) -> Process:
        return self

    def __exit__(self, *_: object) -> None:
        self.end()
