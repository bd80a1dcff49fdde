"""Two builds of our engine side by side: the installed one, and one made only for a row.

Each build runs in its own process, because a process can load only one of them. The second build goes to its own
folder, so that the installed one stays unchanged.
"""

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from benches import machine, wheel
from benches.model import Unavailable


def without_timings() -> Path:
    """Builds the module with timings compiled out. Returns the folder to import it from."""
    folder = machine.ROOT / "target" / "untimed"
    try:
        return wheel.unpacked(machine.ROOT, folder, folder, "--no-default-features")
    except (OSError, subprocess.CalledProcessError) as error:
        raise Unavailable(f"a module without timings cannot be built: {error}") from error


class Side:
    """A build that runs in its process."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process
        #: True if futures of this build carry timings.
        self.has_timings = self._answer() == "timed"

    def seconds(self, count: int) -> float:
        """Runs a burst of `count` submissions. Returns its seconds, measured in that process."""
        assert self._process.stdin is not None
        print(count, file=self._process.stdin, flush=True)
        return float(self._answer())

    def _answer(self) -> str:
        assert self._process.stdout is not None
        line = self._process.stdout.readline().strip()
        if not line:
            raise RuntimeError("one of the builds ended before it answered")
        return line


@contextmanager
def opened(folder: Path | None, workers: int) -> Iterator[Side]:
    """Starts the build in `folder`, or the installed one."""
    environment = dict(os.environ)
    if folder is not None:
        paths = [str(folder), *environment.get("PYTHONPATH", "").split(os.pathsep)]
        environment["PYTHONPATH"] = os.pathsep.join(path for path in paths if path)
    command = [sys.executable, "-m", "benches.side", str(workers)]
    pipe = subprocess.PIPE
    with subprocess.Popen(
        command, cwd=machine.ROOT, env=environment, stdin=pipe, stdout=pipe, text=True
    ) as process:
        yield Side(process)
