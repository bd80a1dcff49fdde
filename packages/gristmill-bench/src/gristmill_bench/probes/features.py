"""Probes of an executor's features: what it takes as functions and arguments, cancels, ends, and survives."""

from __future__ import annotations

import os
import random
import traceback
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from time import monotonic
from typing import Any

from gristmill_bench.interfaces import Future
from gristmill_bench.probes.probe import (
    NO,
    PATIENCE_S,
    YES,
    Hangs,
    Opened,
    Probe,
    comes,
    die_once,
    nothing,
    runs,
    stay,
    value,
    wait_until,
    yes,
)

#: Rows whose answers are numbers.
FIRST, RATE = "first result after, s", "tasks/s"
SEES, GOES_ON, KEEPS, AGAIN = (
    "tells that a worker was killed",
    "goes on after that",
    "keeps tasks that waited then",
    "runs the task again that was lost",
)
FUTURES = "takes futures as arguments"
#: Tasks behind those that run, because pools hand some tasks out that cannot be cancelled.
_WAITING = 20
#: Seconds for which tasks run to measure a rate, and smallest and largest number of tasks.
_RATE_S, _TASKS_MIN, _TASKS_MAX = 0.5, 1_000, 1_024_000
#: Seconds in which a running task has to be ended.
_WAIT_S = 4.0
#: Seconds in which the loss of a worker has to be reported: some executors check every ten or thirty.
_NOTICE_S = 40.0
#: Times that each worker makes data.
_TURNS = 4


def add(left: int, right: int) -> int:
    """Adds the results of two other tasks."""
    return left + right


def leave_sign(path: str) -> None:
    """Leaves a file as a sign that the task has run."""
    Path(path).touch()


def raise_inside() -> None:
    """Raises an error in a function of its own."""

    def inner_cause() -> None:
        raise ValueError("on purpose")

    inner_cause()


def made(begun: str, gate: str) -> tuple[int, bytes]:
    """Returns a large result, with the process that made it."""
    return stay(begun, gate), bytes(4_000_000)


def is_here(parent: tuple[int, bytes]) -> bool:
    """Returns whether the task runs in the process that made its argument."""
    return parent[0] == os.getpid()


def _rate(opened: Opened) -> Mapping[str, float]:
    """Returns the highest rate of rounds that grow until one is long enough: the first rounds start workers."""
    count, best = 250, 0.0
    while True:
        begun = monotonic()
        for one in [opened.backend.submit(nothing, number) for number in range(count)]:
            value(one)
        seconds = monotonic() - begun
        best = max(best, count / seconds)
        if count >= _TASKS_MAX or (seconds > _RATE_S and count >= _TASKS_MIN):
            return {RATE: best}
        count *= 4


def _takes_closures(opened: Opened) -> bool:
    secret = os.getpid()
    return bool(value(opened.backend.submit(lambda: secret)) == secret)


def _takes_futures(opened: Opened) -> bool:
    ones = [opened.itself.submit(nothing, 1), opened.itself.submit(nothing, 2)]
    return bool(value(opened.itself.submit(add, *ones)) == 3)


def _takes_futures_in_lists(opened: Opened) -> bool:
    ones = [opened.itself.submit(nothing, 1), opened.itself.submit(nothing, 2)]
    return bool(value(opened.itself.submit(sum, ones)) == 3)


def _has_processes(opened: Opened) -> bool:
    return bool(value(opened.backend.submit(os.getpid)) != os.getpid())


def _names_the_cause(opened: Opened) -> bool:
    try:
        value(opened.backend.submit(raise_inside))
    except Hangs:
        raise
    except BaseException as error:
        is_its = isinstance(error, ValueError)
        return is_its and "inner_cause" in "".join(traceback.format_exception(error))
    return False


def _goes_where_data_is(opened: Opened) -> bool:
    """Returns whether all tasks run where their data is.

    All workers make some data, at the same time and several times; then tasks that need it are submitted one by one.
    """
    parents = [one for turn in range(_TURNS) for one in _made_by_all(opened, turn)]
    order = [*range(len(parents))] * 2
    # A random order, which no executor follows by giving its workers turns.
    random.Random(1).shuffle(order)
    return all([value(opened.itself.submit(is_here, parents[one])) for one in order])


def _made_by_all(opened: Opened, turn: int) -> list[Any]:
    """Submits a task for each worker, none of which ends before all have begun."""
    gate = opened.folder / f"gate-{turn}"
    gate.touch()
    signs = [opened.folder / f"made-{turn}-{number}" for number in range(opened.workers)]
    tasks = [opened.itself.submit(made, str(sign), str(gate)) for sign in signs]
    try:
        wait_until(lambda: all(sign.exists() for sign in signs))
    finally:
        gate.unlink()
    for one in tasks:
        value(one)
    return tasks


def _takes_back(opened: Opened) -> bool:
    sign = opened.folder / "ran"
    with opened.busy():
        waiting = [opened.backend.submit(nothing, number) for number in range(_WAITING)]
        last = opened.backend.submit(leave_sign, str(sign))
        # Some executors refuse with an exception.
        with suppress(Exception):
            last.cancel()
    for one in [*waiting, *(opened.backend.submit(nothing, 0) for _ in range(_WAITING))]:
        value(one)
    return not sign.exists()


def _stops(opened: Opened) -> bool:
    gate, begun = opened.folder / "gate", opened.folder / "running"
    gate.touch()
    try:
        task = opened.backend.submit(stay, str(begun), str(gate))
        comes(lambda: begun.exists() and runs(begun), PATIENCE_S)
        with suppress(Exception):
            _cancel(task)
        return comes(lambda: not runs(begun), _WAIT_S)
    finally:
        gate.unlink()


def _cancel(task: Any) -> None:
    """Cancels a running task; Gristmill has to be told that this is meant."""
    try:
        task.cancel(running=True)
    except TypeError:
        task.cancel()


def _ends_in_time(opened: Opened) -> bool:
    gate, begun = opened.folder / "gate", opened.folder / "limited"
    gate.touch()
    try:
        task = opened.backend.submit(stay, str(begun), str(gate))
        return comes(task.done, _WAIT_S) and task.exception() is not None
    finally:
        gate.unlink()


def _survives(opened: Opened) -> Mapping[str, float]:
    first = opened.backend.submit(die_once, str(opened.folder / "killed"))
    others = [opened.backend.submit(nothing, number) for number in range(_WAITING)]
    is_seen = comes(first.done, _NOTICE_S)
    # All tasks share this wait, so that tasks lost with a pool are not waited for one after the other.
    is_kept = comes(lambda: all(one.done() for one in others), PATIENCE_S)
    found = {
        SEES: is_seen,
        AGAIN: is_seen and _gives(first, "again"),
        KEEPS: is_kept and all(_gives(one, number) for number, one in enumerate(others)),
        GOES_ON: False,
    }
    with suppress(Exception):
        found[GOES_ON] = _gives(opened.backend.submit(nothing, 1), 1)
    return {row: YES if one else NO for row, one in found.items()}


def _gives(future: Future, expected: object) -> bool:
    """Returns whether a task gives the expected result in time."""
    try:
        return bool(future.result(PATIENCE_S) == expected)
    except Exception:
        return False


#: All probes in the order in which they run: those that harm the executor come last.
FEATURES = (
    Probe((FIRST,), lambda opened: {FIRST: opened.first_s}),
    Probe((RATE,), _rate),
    yes("runs tasks in processes of their own", _has_processes),
    yes("takes closures as functions", _takes_closures),
    yes(FUTURES, _takes_futures),
    yes("takes lists with futures in them", _takes_futures_in_lists),
    yes("runs a task where its data is", _goes_where_data_is),
    yes("shows where in a task an error was raised", _names_the_cause),
    yes("takes a waiting task back", _takes_back),
    yes("stops a running task that is cancelled", _stops),
    yes("ends a task when its time is over", _ends_in_time, is_limited=True),
    Probe((SEES, GOES_ON, KEEPS, AGAIN), _survives, is_limited=True),
)
