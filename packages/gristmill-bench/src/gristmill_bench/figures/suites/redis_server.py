"""A Redis server that runs while a figure is measured, on a Unix socket that no other user can reach."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory
from time import monotonic, sleep

from gristmill import instruments
from gristmill_bench.errors import BenchError

_PROGRAM = "redis-server"
#: Seconds within which the server has to start.
_START_S = 20.0


def missing() -> str | None:
    """Returns why no server can run here, or ``None`` if one can."""
    if find_spec("redis") is None:
        return "pip install redis"
    return None if shutil.which(_PROGRAM) else f"apt-get install {_PROGRAM}"


@contextmanager
def running() -> Iterator[str]:
    """Yields the address of a server that keeps objects only in memory, and ends with the block or with this process.

    Raises ``BenchError`` if it does not start.
    """
    reason = missing()
    if reason is not None:
        raise BenchError(reason)
    with TemporaryDirectory(prefix="gb-") as name:
        folder = Path(name)
        socket, log = folder / "redis", folder / "log.txt"
        command = [_PROGRAM, "--port", "0", "--unixsocket", str(socket), "--dir", name]
        command += ["--save", "", "--appendonly", "no"]
        around = instruments.bounded_command("0", str(log), "")
        server = subprocess.Popen([*around, *command])
        try:
            end = monotonic() + _START_S
            while not socket.exists():
                if server.poll() is not None or monotonic() > end:
                    said = instruments.last_line(log) if log.exists() else "no output"
                    raise BenchError(f"{_PROGRAM} does not start: {said}")
                sleep(0.01)
            yield f"unix://{socket}"
        finally:
            server.terminate()
            server.wait()
