"""A program with an executor, which ends when its input ends or when the process that started it kills it.

Its arguments are a table of an executor as JSON, such as ``{"name": "parsl"}``, and a folder in which tasks create
files as signs. It prints ``ready`` when each worker has run a task; then it waits for the end of its input. With the
third argument ``busy``, each worker is by then also running a task that takes a minute.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from time import monotonic, sleep
from typing import Any

from gristmill_bench import config
from gristmill_bench.errors import BenchError

#: The code that an interpreter runs. This module is not run by ``-m``: Parsl's workers could not import ``__main__``.
COMMAND = f"import sys; from {__name__} import main; sys.exit(main(sys.argv[1:]))"
_HELD_S = 60.0
_PATIENCE_S = 60.0


def hold(folder: str, seconds: float) -> int:
    """Creates a file named after this process in ``folder``, and waits for ``seconds``."""
    Path(folder, f"{os.getpid()}-{seconds:g}").touch()
    end = monotonic() + seconds
    while monotonic() < end:
        sleep(0.01)
    return os.getpid()


def _wait_for(folder: Path, seconds: float, count: int) -> None:
    """Waits until ``count`` workers have begun such a task."""
    end = monotonic() + _PATIENCE_S
    while len(list(folder.glob(f"*-{seconds:g}"))) < count:
        if monotonic() > end:
            raise BenchError(f"no {count} workers have begun a task in {_PATIENCE_S:g} s")
        sleep(0.01)


def main(words: list[str]) -> int:
    """Runs the program; returns the exit status."""
    table: dict[str, Any] = json.loads(words[0])
    folder, is_busy = Path(words[1]), words[2:] == ["busy"]
    executor = config.resolve({"app": {"name": "synthetic"}, "executor": table}).executor
    backend = executor.open()
    times = (0.1, _HELD_S) if is_busy else (0.1,)
    for seconds in times:
        tasks = [backend.submit(hold, str(folder), seconds) for _ in range(executor.workers)]
        if seconds == _HELD_S:
            _wait_for(folder, seconds, executor.workers)
        else:
            _ = [task.result() for task in tasks]
    print("ready", flush=True)
    sys.stdin.read()
    backend.shutdown()
    return 0
