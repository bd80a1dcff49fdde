"""A child that dies or is stopped loses its own worker, and not the parent that waits for it."""

from __future__ import annotations

import os
from collections.abc import Callable
from concurrent.futures import CancelledError
from pathlib import Path

import pytest

import gristmill
from gristmill import Executor

import calls

MakeExecutor = Callable[..., Executor]


def end_of_a_dying_child() -> str:
    """Returns the type of the error that a parent gets for a child that ends its worker."""
    error = gristmill.current_executor().submit(calls.leave, 3).exception()
    return type(error).__name__


def end_of_a_repeated_child(path: str) -> int:
    """Returns the result of a child that ends its worker once and may be repeated."""
    children = gristmill.current_executor().options(loss_retries=2)
    return int(children.submit(calls.die_first, path, 1).result())


def end_of_a_late_child(path: str) -> str:
    """Returns the type of the error that a parent gets for a child that exceeds its time and ignores the interrupt."""
    children = gristmill.current_executor().options(timeout=0.3, grace=0.3)
    return type(children.submit(calls.enter_and_ignore, path).exception()).__name__


def live_or_leave(code: int | None) -> None:
    """Returns, or ends its worker."""
    if code is not None:
        os._exit(code)


def end_of_an_earned_child() -> str:
    """Returns the type of the error for a child that dies after its function ran often enough to run in the parent's
    wait.
    """
    children = gristmill.current_executor()
    for _ in range(150):
        children.submit(live_or_leave, None).result()
    return type(children.options(timeout=60).submit(live_or_leave, 3).exception()).__name__


def depth_below(levels: int) -> int:
    """Runs a chain of tasks, each of which waits for the next; returns its length."""
    if levels == 0:
        return 0
    return 1 + int(gristmill.current_executor().submit(depth_below, levels - 1).result())


def pids_of_children(count: int) -> tuple[int, list[int]]:
    """Returns the process of this task, and those of its children, which run one after the other."""
    children = gristmill.current_executor()
    return os.getpid(), [children.submit(calls.pid).result() for _ in range(count)]


@pytest.mark.parametrize("workers", [1, 2])
def test_a_parent_outlives_a_child_that_dies(make_executor: MakeExecutor, workers: int) -> None:
    executor = make_executor(workers)
    assert executor.submit(end_of_a_dying_child).result() == "WorkerLostError"


@pytest.mark.parametrize("workers", [1, 2])
def test_the_budget_of_a_child_is_the_child_s(
    make_executor: MakeExecutor, tmp_path: Path, workers: int
) -> None:
    executor = make_executor(workers)
    path = str(tmp_path / "deaths")
    assert executor.submit(end_of_a_repeated_child, path).result() == 2


@pytest.mark.parametrize("workers", [1, 2])
def test_a_parent_outlives_a_child_that_is_killed_for_its_timeout(
    make_executor: MakeExecutor, tmp_path: Path, workers: int
) -> None:
    executor = make_executor(workers)
    for end in (".entered", ".leave"):
        os.mkfifo(str(tmp_path / "gate") + end)
    held = [os.open(str(tmp_path / "gate") + end, os.O_RDWR) for end in (".entered", ".leave")]
    assert (
        executor.submit(end_of_a_late_child, str(tmp_path / "gate")).result() == "TaskTimeoutError"
    )
    for one in held:
        os.close(one)


def test_a_call_with_a_timeout_never_runs_in_its_parent_s_wait(make_executor: MakeExecutor) -> None:
    executor = make_executor(2)
    assert executor.submit(end_of_an_earned_child).result() == "WorkerLostError"


def test_a_child_runs_in_its_parent_s_wait_once_its_function_has_earned_it(
    make_executor: MakeExecutor,
) -> None:
    executor = make_executor(1)
    own, pids = executor.submit(pids_of_children, 150).result()
    assert own not in pids[:100], "another worker, or a spare"
    assert own in pids[100:]


def test_deeper_than_there_are_spares_children_run_in_their_parents_waits(
    make_executor: MakeExecutor,
) -> None:
    assert make_executor(1).submit(depth_below, 80).result() == 80


def test_a_cancellation_that_was_granted_holds_whatever_the_task_does(
    make_executor: MakeExecutor,
) -> None:
    executor = make_executor(2)
    for number in range(300):
        future = executor.submit(calls.same, number)
        if number % 3 == 0:
            executor.submit(calls.nothing).result()
        if future.cancel(running=True):  # type: ignore[call-arg]
            with pytest.raises(CancelledError):
                future.result()
        else:
            assert future.result() == number
