"""Tasks that submit tasks and wait for them."""

from __future__ import annotations

import concurrent.futures
import functools
import os
import signal
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import gristmill

#: A hang is a failure, not a hung test run.
HANG = 60


@pytest.fixture(scope="module", params=[1, 2])
def executor(request: pytest.FixtureRequest) -> Iterator[gristmill.Executor]:
    with gristmill.Executor(max_workers=request.param) as ex:
        yield ex


@pytest.fixture(scope="module")
def one() -> Iterator[gristmill.Executor]:
    with gristmill.Executor(max_workers=1) as ex:
        yield ex


def nothing() -> None:
    pass


def double(value: int) -> int:
    return 2 * value


def add(*values: int) -> int:
    return sum(values)


def fib(number: int) -> int:
    if number < 2:
        return number
    submit = gristmill.current_executor().submit
    first, second = submit(fib, number - 1), submit(fib, number - 2)
    return first.result() + second.result()


@pytest.mark.interpreter
def test_a_recursive_function_waits_for_itself(executor: gristmill.Executor) -> None:
    assert executor.submit(fib, 11).result(HANG) == 89


def fan(width: int) -> int:
    ex = gristmill.current_executor()
    return sum(future.result() for future in [ex.submit(double, index) for index in range(width)])


def test_a_task_fans_out(executor: gristmill.Executor) -> None:
    assert executor.submit(fan, 3000).result(HANG) == 3000 * 2999
    assert list(executor.map(fan, [10] * 20, timeout=HANG)) == [90] * 20


def chain(depth: int) -> int:
    if depth == 0:
        return 0
    return 1 + gristmill.current_executor().submit(chain, depth - 1).result()


def test_a_chain_of_waiting_tasks_deeper_than_one_stack(one: gristmill.Executor) -> None:
    assert one.submit(chain, 200).result(HANG) == 200


def noops(count: int) -> int:
    ex = gristmill.current_executor()
    futures = [ex.submit(nothing) for _ in range(count)]
    return sum(future.result() is None for future in futures)


def test_twenty_thousand_nested_tasks(executor: gristmill.Executor) -> None:
    assert executor.submit(noops, 20_000).result(HANG) == 20_000


class OwnError(Exception):
    pass


def raise_own() -> None:
    raise OwnError("from below")


def wait_for_failure() -> None:
    gristmill.current_executor().submit(raise_own).result()


def catch_failure() -> tuple[str, str]:
    future = gristmill.current_executor().submit(raise_own)
    error = future.exception()
    return type(error).__name__, str(error)


def test_a_nested_failure_reaches_the_parent_with_its_type(executor: gristmill.Executor) -> None:
    with pytest.raises(OwnError, match="from below"):
        executor.submit(wait_for_failure).result(HANG)
    assert executor.submit(catch_failure).result(HANG) == ("OwnError", "from below")


def die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def wait_for_death() -> None:
    gristmill.current_executor().submit(die).result()


def test_a_parent_whose_worker_dies_while_it_waits_is_lost(executor: gristmill.Executor) -> None:
    with pytest.raises(gristmill.WorkerLost):
        executor.submit(wait_for_death).result(HANG)
    assert executor.submit(fib, 5).result(HANG) == 5


def wait_for_file(path: str) -> None:
    """Runs until the path exists."""
    while not os.path.exists(path):
        os.sched_yield()


def wait_for_waiting_child(started: str, forever: str, ended: str) -> None:
    ex = gristmill.current_executor().options()
    try:
        ex.submit(wait_and_tell, started, forever).result()
    finally:
        Path(ended).touch()


def wait_and_tell(started: str, forever: str) -> None:
    Path(started).touch()
    wait_for_file(forever)


@pytest.mark.interpreter
def test_cancel_running_interrupts_a_waiting_parent(
    executor: gristmill.Executor, tmp_path: Path
) -> None:
    started, go, ended = (str(tmp_path / name) for name in ("started", "go", "ended"))
    future = executor.submit(wait_for_waiting_child, started, go, ended)
    wait_for_file(started)
    assert future.cancel(running=True, grace=HANG)
    Path(go).touch()
    with pytest.raises(concurrent.futures.CancelledError):
        future.result(HANG)
    wait_for_file(ended)
    assert executor.submit(fib, 5).result(HANG) == 5


def test_the_timeout_of_a_waiting_parent(executor: gristmill.Executor, tmp_path: Path) -> None:
    started, never, ended = (str(tmp_path / name) for name in ("started", "never", "ended"))
    options = executor.options(timeout=0.2, grace=0.2)
    future = options.submit(wait_for_waiting_child, started, never, ended)
    with pytest.raises(gristmill.TaskTimeout):
        future.result(HANG)
    Path(never).touch()
    assert executor.submit(fib, 5).result(HANG) == 5


def call_with(ex: Any, value: int) -> int:
    result: int = ex.submit(double, value).result()
    return result


def test_an_executor_as_argument_or_captured_is_the_current_one(
    executor: gristmill.Executor,
) -> None:
    assert executor.submit(call_with, executor, 4).result(HANG) == 8
    retrying = executor.options(retries=1)
    assert executor.submit(call_with, retrying, 4).result(HANG) == 8
    assert executor.submit(lambda: executor.submit(double, 5).result()).result(HANG) == 10

    def power(base: int, exponent: int) -> int:
        if exponent == 0:
            return 1
        return base * executor.submit(power, base, exponent - 1).result()

    assert executor.submit(power, 2, 12).result(HANG) == 4096
    assert executor.submit(pass_on).result(HANG) == 6


def pass_on() -> int:
    ex = gristmill.current_executor()
    result: int = ex.submit(call_with, ex, 3).result()
    return result


def test_an_executor_goes_nowhere_else(one: gristmill.Executor) -> None:
    with pytest.raises(TypeError, match="executor cannot be sent"):
        one.__reduce__()
    with pytest.raises(gristmill.UnpicklableError):
        one.submit(gristmill.current_executor).result(HANG)
    with pytest.raises(RuntimeError, match="no current executor"):
        gristmill.current_executor()


def by_value(factor: int) -> list[int]:
    ex = gristmill.current_executor()
    return [ex.submit(lambda value: factor * value, value).result() for value in range(5)]


def test_functions_by_value_in_tasks(executor: gristmill.Executor) -> None:
    assert executor.submit(by_value, 3).result(HANG) == [0, 3, 6, 9, 12]


def futures_as_arguments() -> list[int]:
    ex = gristmill.current_executor()
    two = ex.submit(double, 1)
    four = ex.submit(double, two)
    both = ex.submit(add, two, four)
    listed = ex.submit(sum, [two, four, both])
    partial = ex.submit(add, two, *[ex.submit(double, four) for _ in range(3)])
    return [future.result() for future in (four, both, listed, partial)]


def test_nested_futures_as_arguments(executor: gristmill.Executor) -> None:
    assert executor.submit(futures_as_arguments).result(HANG) == [4, 6, 12, 26]


def failed_argument() -> str:
    ex = gristmill.current_executor()
    error = ex.submit(double, ex.submit(raise_own)).exception()
    return f"{type(error).__name__} {type(error.__cause__).__name__}"


def test_a_failed_nested_argument(executor: gristmill.Executor) -> None:
    assert executor.submit(failed_argument).result(HANG) == "DependencyFailed OwnError"


def forget(path: str, count: int) -> None:
    for index in range(count):
        gristmill.current_executor().submit(touch, path, index)


def touch(path: str, index: int) -> None:
    (Path(path) / str(index)).touch()


def test_what_nobody_waits_for_runs_on_and_shutdown_waits_for_it(tmp_path: Path) -> None:
    with gristmill.Executor(max_workers=1) as ex:
        ex.submit(forget, str(tmp_path), 50)
    assert len(list(tmp_path.iterdir())) == 50


def test_shutdown_waits_for_nested_tasks() -> None:
    ex = gristmill.Executor(max_workers=1)
    future = ex.submit(fib, 10)
    ex.shutdown(wait=True)
    assert future.done()
    assert future.result(HANG) == 55


def use_futures() -> list[Any]:
    ex = gristmill.current_executor()
    futures = [ex.submit(double, index) for index in range(10)]
    done, pending = concurrent.futures.wait(futures)
    called: list[int] = []
    other = ex.submit(double, 50)
    other.add_done_callback(lambda future: called.append(future.result()))
    completed = sorted(future.result() for future in concurrent.futures.as_completed(futures))
    other.result()
    other.add_done_callback(lambda future: called.append(future.result()))
    any_one = gristmill.wait_any([ex.submit(double, 7)]).result()
    return [len(done), len(pending), completed[-1], called, any_one, futures[0].done()]


@pytest.mark.interpreter
def test_futures_in_a_task_are_futures(executor: gristmill.Executor) -> None:
    assert executor.submit(use_futures).result(HANG) == [10, 0, 18, [100, 100], 14, True]


def use_map() -> list[Any]:
    ex = gristmill.current_executor()
    return [
        list(ex.map(double, range(100))) == [2 * index for index in range(100)],
        sorted(ex.map(double, range(10), ordered=False)) == [2 * index for index in range(10)],
        list(ex.map(add, [1, 2], [3, 4])),
        next(ex.map(double, iter(int, 1), buffersize=3)),
        list(ex.options(retries=1).map(double, [1])),
    ]


def test_map_in_a_task(executor: gristmill.Executor) -> None:
    assert executor.submit(use_map).result(HANG) == [True, True, [4, 6], 0, [2]]


def poll_until_done() -> int:
    future = gristmill.current_executor().submit(double, 21)
    while not future.done():
        pass
    result: int = future.result()
    return result


def test_polling_a_nested_future_comes_to_an_end(executor: gristmill.Executor) -> None:
    assert executor.submit(poll_until_done).result(HANG) == 42


def time_out(never: str) -> str:
    ex = gristmill.current_executor()
    future = ex.options(timeout=0.1, grace=HANG).submit(wait_for_file, never)
    try:
        future.result()
    except gristmill.TaskTimeout:
        return "timed out"
    return "not"


def test_the_timeout_of_a_nested_task(executor: gristmill.Executor, tmp_path: Path) -> None:
    assert executor.submit(time_out, str(tmp_path / "never")).result(HANG) == "timed out"


def cancel_one(path: str) -> tuple[bool, bool, bool]:
    future = gristmill.current_executor().submit(touch, path, 1)
    cancelled = future.cancel()
    future_cancelled = False
    try:
        future.result()
    except concurrent.futures.CancelledError:
        future_cancelled = True
    return cancelled, future_cancelled, future.cancelled()


def test_cancelling_a_nested_task(executor: gristmill.Executor, tmp_path: Path) -> None:
    said, raised, state = executor.submit(cancel_one, str(tmp_path)).result(HANG)
    assert said == raised == state
    assert said != (tmp_path / "1").exists()


def blocked_and_cancelled(path: str) -> list[bool]:
    ex = gristmill.current_executor()
    first = ex.submit(wait_for_file, path)
    second = ex.submit(add, 1, ex.submit(id, first))
    answer = [second.cancel()]
    Path(path).touch()
    first.result()
    return [*answer, second.cancelled()]


def test_cancelling_a_nested_task_that_waits_for_its_arguments(tmp_path: Path) -> None:
    with gristmill.Executor(max_workers=2) as ex:
        path = str(tmp_path / "go")
        blocker = ex.submit(wait_for_file, path)
        future = ex.submit(blocked_and_cancelled, path)
        assert future.result(HANG) == [True, True]
        blocker.result(HANG)


def tell(path: str) -> None:
    gristmill.current_executor().submit(nothing).result()
    Path(path).touch()


def test_nested_tasks_are_served_while_the_program_does_something_else(
    executor: gristmill.Executor, tmp_path: Path
) -> None:
    path = tmp_path / "told"
    future = executor.submit(tell, str(path))
    wait_for_file(str(path))
    future.result(HANG)


def in_a_thread() -> str:
    found: list[str] = []

    def ask() -> None:
        try:
            gristmill.current_executor()
        except RuntimeError as error:
            found.append(str(error))

    thread = threading.Thread(target=ask)
    thread.start()
    thread.join()
    return found[0]


def test_a_task_s_other_threads_have_no_executor(one: gristmill.Executor) -> None:
    assert "thread" in one.submit(in_a_thread).result(HANG)


_kept: list[Any] = []


def keep(path: str) -> None:
    _kept.append(gristmill.current_executor().submit(wait_for_file, path))


def use_kept() -> list[str]:
    future = _kept.pop()
    errors = []
    for use in (future.result, future.exception, lambda: concurrent.futures.wait([future])):
        try:
            use()
        except RuntimeError as error:
            errors.append(str(error))
    return [*errors, str(future.done())]


def test_a_task_waits_only_for_what_it_submitted(one: gristmill.Executor, tmp_path: Path) -> None:
    kept = one.submit(keep, str(tmp_path / "done"))
    kept.result(HANG)
    used = one.submit(use_kept)
    (tmp_path / "done").touch()
    *errors, done = used.result(HANG)
    assert done in ("False", "True")
    assert all("itself" in error for error in errors)
    assert len(errors) == (3 if done == "False" else len(errors))


def large() -> list[int]:
    ex = gristmill.current_executor()
    return [
        len(ex.submit(functools.partial(bytes.__add__, b"x" * size), b"y").result())
        for size in (1, 40_000)
    ]


def test_definitions_larger_than_a_record(executor: gristmill.Executor) -> None:
    assert executor.submit(large).result(HANG) == [2, 40_001]


def refused() -> str:
    ex = gristmill.current_executor()
    try:
        return str([ex.submit(nothing) for _ in range(3)][-1].result())
    except gristmill.ShutDownError:
        return "refused"


def stopped_then_refused(started: str, go: str) -> str:
    Path(started).touch()
    wait_for_file(go)
    return refused()


def test_a_nested_task_that_is_not_accepted_raises_that(tmp_path: Path) -> None:
    started, go = str(tmp_path / "started"), str(tmp_path / "go")
    ex = gristmill.Executor(max_workers=1)
    future = ex.submit(stopped_then_refused, started, go)
    wait_for_file(started)
    ex.shutdown(wait=False, cancel_futures=True)
    Path(go).touch()
    assert future.result(HANG) == "refused"
    ex.shutdown(wait=True)


@pytest.mark.parametrize("use", [fib, chain])
def test_many_parents_at_once(executor: gristmill.Executor, use: Callable[[int], int]) -> None:
    expected = {fib: 13, chain: 7}[use]
    assert list(executor.map(use, [7] * 100, timeout=HANG)) == [expected] * 100
