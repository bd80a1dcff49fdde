"""Whether a task's worker looked for tasks, slept, or had to be started first."""

from __future__ import annotations

from collections.abc import Callable

from gristmill import Executor

import calls

MakeExecutor = Callable[..., Executor]


def temperature(executor: Executor) -> str:
    future = executor.submit(calls.nothing)
    future.result()
    return str(future.tags()["temperature"])


def test_the_first_task_is_cold(make_executor: MakeExecutor) -> None:
    executor = make_executor(1)
    assert temperature(executor) == "cold"
    assert temperature(executor) != "cold"


def test_a_worker_that_sleeps_is_warm(make_executor: MakeExecutor) -> None:
    executor = make_executor(1, spin_us=0)
    while temperature(executor) != "warm":
        pass  # it falls asleep between two tasks at last


def test_a_worker_that_has_something_to_do_is_hot(make_executor: MakeExecutor) -> None:
    executor = make_executor(1)
    executor.submit(calls.nothing).result()
    futures = [executor.submit(calls.nothing) for _ in range(1000)]
    found = [future.tags()["temperature"] for future in futures if future.result() is None]
    assert "hot" in found


def test_temperatures_are_counted(make_executor: MakeExecutor) -> None:
    executor = make_executor(1)
    assert list(executor.map(calls.same, range(3000))) == list(range(3000))
    counts = executor.stats()
    assert counts["hot"] + counts["warm"] + counts["cold"] == 3000
    assert counts["cold"] >= 1


def test_a_task_that_has_not_run_has_none(make_executor: MakeExecutor) -> None:
    executor = make_executor(1)
    executor.submit(calls.nothing).result()
    late = executor.options(deadline=0).submit(calls.nothing)
    assert late.exception() is not None
    assert "temperature" not in late.tags()
