"""A Redis server for as long as a figure is measured, on a socket that is a file: nobody else can reach it."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory
from time import monotonic, sleep

from gristmill import _descent
from gristmill.bench.errors import BenchError

_PROGRAM = "redis-server"
#: Seconds within which it has to be there.
_START_S = 20.0


def missing() -> str | None:
    """Why there can be none; ``None``: there can."""
    if find_spec("redis") is None:
        return "pip install redis"
    return None if shutil.which(_PROGRAM) else f"apt-get install {_PROGRAM}"


@contextmanager
def running() -> Iterator[str]:
    """The address of a server that keeps objects in memory alone, and ends with the block or with this process.

    Raises ``BenchError``, if it does not start.
    """
    reason = missing()
    if reason is not None:
        raise BenchError(reason)
    with TemporaryDirectory(prefix="gb-") as name:
        folder = Path(name)
        socket, log = folder / "redis", folder / "log.txt"
        command = [_PROGRAM, "--port", "0", "--unixsocket", str(socket), "--dir", name]
        command += ["--save", "", "--appendonly", "no"]
        around = [sys.executable, "-m", "gristmill._descent", "0", str(log), ""]
        server = subprocess.Popen([*around, *command])
        try:
            end = monotonic() + _START_S
            while not socket.exists():
                if server.poll() is not None or monotonic() > end:
                    said = _descent.last_line(log) if log.exists() else "no output"
                    raise BenchError(f"{_PROGRAM} does not start: {said}")
                sleep(0.01)
            yield f"unix://{socket}"
        finally:
            server.terminate()
            server.wait()
