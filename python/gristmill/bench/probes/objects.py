"""Probes of what a task gets as its arguments: a copy, the program's own object, or one that it cannot change."""

from __future__ import annotations

from typing import Any

from gristmill.bench.probes.probe import Opened, value, yes

READ_ONLY = "arrays among arguments are read-only in a task"
INTO_PROGRAM = "a task can change what the program has"
INTO_TASKS = "a task can change the result that another task gets"
FROM_PROGRAM = "the program can change what it gave to a task that waits"
#: Numbers of an array: too many to travel beside the call.
_NUMBERS = 200_000
#: Tasks before the one that waits: pools hand some out early.
_WAITING = 20


def is_read_only(array: Any) -> bool:
    """A task that looks whether it could change an array."""
    return not array.flags.writeable


def add_one(numbers: list[int]) -> int:
    """A task that changes its argument."""
    numbers.append(1)
    return len(numbers)


def count(numbers: list[int]) -> int:
    """A task that says how long its argument is."""
    return len(numbers)


def empty() -> list[int]:
    """A task whose result others get."""
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
