"""What a worker of HTEX unpacks and runs a task with, where tasks are noted."""

from __future__ import annotations

import importlib
from functools import cache
from pathlib import Path
from typing import Any

from gristmill.bench.borders.hops import Border
from gristmill.bench.borders.notes import Notes


def execute(buffer: bytes, folder: str, number: int) -> Any:
    """Runs a task as Parsl's own function does, and notes when it began and ended; raises what the task raises."""
    notes, run = _here(folder)
    notes.note(number, Border.STARTED)
    try:
        return run(buffer)
    finally:
        notes.note(number, Border.ENDED)


@cache
def _here(folder: str) -> tuple[Notes, Any]:
    """The notes of this process, and Parsl's function."""
    run = importlib.import_module("parsl.executors.execute_task").execute_task
    return Notes(Path(folder)), run
