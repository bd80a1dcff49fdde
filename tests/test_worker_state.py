"""The state of a task's worker at its arrival: polling, asleep, or not started."""

from __future__ import annotations

from collections.abc import Callable

from gristmill import Executor

import calls
from stage import Gate

MakeExecutor = Callable[..., Executor]


def worker_state(executor: Executor) -> str:
    future = executor.submit(calls.nothing)
    future.result()
    return str(future.timings().worker_state)


def first_task(executor: Executor, gate: Gate) -> str:
    """Returns the worker state of a task that is there before the worker has started."""
    future = executor.submit(calls.nothing)
    gate.wait_entered()
    gate.open()
    future.result()
    return str(future.timings().worker_state)


def test_the_first_task_is_cold(make_executor: MakeExecutor, gate: Gate) -> None:
    executor = make_executor(1, initializer=calls.enter, initargs=(gate.path,))
    assert first_task(executor, gate) == "cold"
    assert worker_state(executor) != "cold"


def test_a_worker_that_sleeps_is_warm(make_executor: MakeExecutor) -> None:
    executor = make_executor(1, spin_seconds=0)
    while worker_state(executor) != "warm":
        pass  # it falls asleep between two tasks at last


def test_a_worker_that_has_something_to_do_is_hot(make_executor: MakeExecutor) -> None:
    executor = make_executor(1)
    executor.submit(calls.nothing).result()
    futures = [executor.submit(calls.nothing) for _ in range(1000)]
    found = [future.timings().worker_state for future in futures if future.result() is None]
    assert "hot" in found


def test_worker_states_are_counted(make_executor: MakeExecutor, gate: Gate) -> None:
    executor = make_executor(1, initializer=calls.enter, initargs=(gate.path,))
    first_task(executor, gate)
    assert list(executor.map(calls.same, range(3000))) == list(range(3000))
    counts = executor.stats()
    assert counts.hot + counts.warm + counts.cold == 3001
    assert counts.cold >= 1


def test_a_task_that_has_not_run_has_none(make_executor: MakeExecutor) -> None:
    executor = make_executor(1)
    executor.submit(calls.nothing).result()
    late = executor.options(start_within=0).submit(calls.nothing)
    assert late.exception() is not None
    assert late.timings().worker_state is None
