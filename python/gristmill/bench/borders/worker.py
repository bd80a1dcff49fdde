"""What workers of HTEX and of pools run a task with, where tasks are noted."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

from gristmill.bench.borders.hops import Border
from gristmill.bench.borders.notes import Notes

#: The borders that a pool's worker notes.
POOL_STARTED, POOL_ENDED = 2, 3


def execute(buffer: bytes, folder: str, number: int) -> Any:
    """Runs a task as Parsl's own function does, and notes when it began and ended; raises what the task raises."""
    run = _parsl_function()
    notes = _notes(folder)
    notes.note(number, Border.STARTED)
    try:
        return run(buffer)
    finally:
        notes.note(number, Border.ENDED)


def call(
    folder: str, number: int, function: Callable[..., Any], /, *args: Any, **kwargs: Any
) -> Any:
    """Calls a function, and notes when that began and ended; raises what it raises."""
    notes = _notes(folder)
    notes.note(number, POOL_STARTED)
    try:
        return function(*args, **kwargs)
    finally:
        notes.note(number, POOL_ENDED)


@cache
def _notes(folder: str) -> Notes:
    """The notes of this process."""
    return Notes(Path(folder))


@cache
def _parsl_function() -> Callable[[bytes], Any]:
    """Parsl's own."""
    run: Callable[[bytes], Any]
    run = importlib.import_module("parsl.executors.execute_task").execute_task
    return run
