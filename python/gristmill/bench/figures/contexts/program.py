"""A program with an executor, which ends when it is told to, or is ended by whoever has started it.

Its words are a table of an executor as JSON, such as ``{"name": "parsl"}``, and a folder for signs of tasks. It prints
``ready`` when each worker has run a task; then it waits for the end of its input. With ``busy`` after these, each
worker also has a task by then that takes a minute.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from time import monotonic, sleep
from typing import Any

from gristmill.bench import config
from gristmill.bench.errors import BenchError

#: What an interpreter is told to run. Not the module itself: Parsl's workers could not import what that has.
COMMAND = f"import sys; from {__name__} import main; sys.exit(main(sys.argv[1:]))"
_HELD_S = 60.0
_PATIENCE_S = 60.0


def hold(folder: str, seconds: float) -> int:
    """Leaves a sign of its process there, and stays for a while."""
    Path(folder, f"{os.getpid()}-{seconds:g}").touch()
    end = monotonic() + seconds
    while monotonic() < end:
        sleep(0.01)
    return os.getpid()


def _wait_for(folder: Path, seconds: float, count: int) -> None:
    """Waits until so many workers have begun such a task."""
    end = monotonic() + _PATIENCE_S
    while len(list(folder.glob(f"*-{seconds:g}"))) < count:
        if monotonic() > end:
            raise BenchError(f"no {count} workers have begun a task in {_PATIENCE_S:g} s")
        sleep(0.01)


def main(words: list[str]) -> int:
    """Runs it; gives the exit status."""
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
