"""Functions with which workers of HTEX and of pools run and timestamp a task."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

from gristmill_bench.borders.hops import Border, PoolBorder
from gristmill_bench.borders.notes import Notes


def execute(buffer: bytes, folder: str, number: int) -> Any:
    """Runs a task as Parsl's own function does, and notes when it began and ended; raises the exception of the task."""
    return _between(folder, number, Border.STARTED, Border.ENDED, _parsl_function(), buffer)


def call(
    folder: str, number: int, function: Callable[..., Any], /, *args: Any, **kwargs: Any
) -> Any:
    """Calls a function in a pool's worker, and notes when it began and ended; raises its exception."""
    return _between(folder, number, PoolBorder.STARTED, PoolBorder.ENDED, function, *args, **kwargs)


def _between(
    folder: str,
    number: int,
    start: int,
    end: int,
    function: Callable[..., Any],
    /,
    *args: Any,
    **kwargs: Any,
) -> Any:
    """Calls a function, and notes a border of the task before and one after it."""
    notes = _notes(folder)
    notes.note(number, start)
    try:
        return function(*args, **kwargs)
    finally:
        notes.note(number, end)


@cache
def _notes(folder: str) -> Notes:
    """Returns the timestamps of this process."""
    return Notes(Path(folder))


@cache
def _parsl_function() -> Callable[[bytes], Any]:
    """Returns Parsl's own function that runs a task."""
    run: Callable[[bytes], Any]
    run = importlib.import_module("parsl.executors.execute_task").execute_task
    return run
