"""Probes of a task's arguments: a copy, the program's own object, or one that the task cannot change."""

from __future__ import annotations

from typing import Any

from gristmill_bench.probes.probe import Opened, value, yes

READ_ONLY = "arrays among arguments are read-only in a task"
INTO_PROGRAM = "a task can change what the program has"
INTO_TASKS = "a task can change the result that another task gets"
FROM_PROGRAM = "the program can change what it gave to a task that waits"
#: Numbers of an array: too many to travel inside the call.
_NUMBERS = 200_000
#: Tasks before the one that waits, because pools hand some out early.
_WAITING = 20


def is_read_only(array: Any) -> bool:
    """Returns whether the task cannot change an array."""
    return not array.flags.writeable


def add_one(numbers: list[int]) -> int:
    """Appends to its argument and returns the new length."""
    numbers.append(1)
    return len(numbers)


def count(numbers: list[int]) -> int:
    """Returns the length of the argument."""
    return len(numbers)


def empty() -> list[int]:
    """Returns an empty list, which other tasks get."""
    return []


def _has_read_only(opened: Opened) -> bool:
    import numpy as np

    return bool(value(opened.backend.submit(is_read_only, np.zeros(_NUMBERS))))


def _into_program(opened: Opened) -> bool:
    numbers: list[int] = []
    value(opened.backend.submit(add_one, numbers))
    return bool(numbers)


def _into_tasks(opened: Opened) -> bool:
    parent = opened.backend.submit(empty)
    value(opened.backend.submit(add_one, parent))
    return bool(value(opened.backend.submit(count, parent)))


def _from_program(opened: Opened) -> bool:
    numbers: list[int] = []
    with opened.busy():
        for _ in range(_WAITING):
            opened.backend.submit(empty)
        task = opened.backend.submit(count, numbers)
        numbers.append(1)
    return bool(value(task))


OBJECTS = (
    yes(READ_ONLY, _has_read_only, needs="numpy"),
    yes(INTO_PROGRAM, _into_program),
    yes(INTO_TASKS, _into_tasks),
    yes(FROM_PROGRAM, _from_program),
)
