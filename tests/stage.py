"""What tests hold tasks with, run programs with, and look for processes with. Nothing here sleeps."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
from pathlib import Path


class Gate:
    """Holds tasks that call ``calls.enter(gate.path)``: the test learns of each one's start and lets it go on."""

    def __init__(self, folder: Path) -> None:
        self.path = str(folder / "gate")
        self._ends = []
        for name in (".entered", ".leave"):
            os.mkfifo(self.path + name)
            # Open for both directions, so that neither side ever waits for the other one's open.
            self._ends.append(os.open(self.path + name, os.O_RDWR))

    def wait_entered(self) -> int:
        """Waits until one more task is inside; gives its worker's process id."""
        return int.from_bytes(os.read(self._ends[0], 4), "little")

    def open(self, count: int = 1) -> None:
        """Lets ``count`` tasks leave."""
        os.write(self._ends[1], b"." * count)

    def close(self) -> None:
        """Lets everybody leave, now and later."""
        self.open(4000)


class Script:
    """Runs a program in a process of its own."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def start(self, text: str, *arguments: str, **options: object) -> subprocess.Popen[str]:
        """Starts ``text`` as a file's main program."""
        path = self._folder / "script.py"
        path.write_text(textwrap.dedent(text))
        tests = str(Path(__file__).parent)
        environment = {**os.environ, "PYTHONPATH": tests, **options.pop("env", {})}  # type: ignore[dict-item]
        return subprocess.Popen(
            [sys.executable, str(path), *arguments],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            stdin=subprocess.PIPE,
            text=True,
            env=environment,
            **options,  # type: ignore[call-overload]
        )

    def run(self, text: str, *arguments: str, **options: object) -> str:
        """Runs ``text`` to a successful end; gives what it printed."""
        with self.start(text, *arguments, **options) as process:
            printed, errors = process.communicate()
        assert process.returncode == 0, errors
        return printed


def family(mark: bytes) -> list[int]:
    """Living processes whose environment holds ``mark``."""
    found = []
    for entry in os.listdir("/proc"):
        if not entry.isdigit() or int(entry) == os.getpid():
            continue
        try:
            environment = Path(f"/proc/{entry}/environ").read_bytes()
            state = Path(f"/proc/{entry}/stat").read_text().rpartition(")")[2].split()[0]
        except OSError:
            continue
        if mark in environment and state not in "ZX":
            found.append(int(entry))
    return found
