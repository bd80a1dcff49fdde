"""Tasks that submit tasks and wait for them."""

from __future__ import annotations

import concurrent.futures
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import gristmill

from nested_tasks import (
    HANG,
    OwnError,
    await_one,
    blocked_and_cancelled,
    by_value,
    call_with,
    callback_past_a_handler,
    cancel_one,
    catch_failure,
    chain,
    double,
    failed_argument,
    fan,
    fib,
    forget,
    freed_with_futures,
    futures_as_arguments,
    in_a_thread,
    keep,
    large,
    map_wrongly,
    noops,
    pass_on,
    poll_until_done,
    stopped_then_refused,
    tell,
    time_out,
    use_futures,
    use_kept,
    use_map,
    wait_for_death,
    wait_for_failure,
    wait_for_file,
    wait_for_waiting_child,
    waits_past_a_handler,
    walk_maps,
)


@pytest.fixture(scope="module", params=[1, 2])
def executor(request: pytest.FixtureRequest) -> Iterator[gristmill.Executor]:
    with gristmill.Executor(max_workers=request.param) as ex:
        yield ex


@pytest.fixture(scope="module")
def one() -> Iterator[gristmill.Executor]:
    with gristmill.Executor(max_workers=1) as ex:
        yield ex


@pytest.mark.interpreter
def test_a_recursive_function_waits_for_itself(executor: gristmill.Executor) -> None:
    assert executor.submit(fib, 11).result(HANG) == 89


def test_a_task_fans_out(executor: gristmill.Executor) -> None:
    assert executor.submit(fan, 3000).result(HANG) == 3000 * 2999
    assert list(executor.map(fan, [10] * 20, timeout=HANG)) == [90] * 20


def test_a_chain_of_waiting_tasks_deeper_than_one_stack(one: gristmill.Executor) -> None:
    assert one.submit(chain, 200).result(HANG) == 200


def test_twenty_thousand_nested_tasks(executor: gristmill.Executor) -> None:
    assert executor.submit(noops, 20_000).result(HANG) == 20_000


@pytest.mark.slow
@pytest.mark.parametrize("workers", [1, 2])
def test_a_recursion_of_many_more_tasks_than_one_stack_has_room_for(workers: int) -> None:
    with gristmill.Executor(max_workers=workers) as ex:
        assert ex.submit(fib, 22).result() == 17_711


def test_a_nested_failure_reaches_the_parent_with_its_type(executor: gristmill.Executor) -> None:
    with pytest.raises(OwnError, match="from below"):
        executor.submit(wait_for_failure).result(HANG)
    assert executor.submit(catch_failure).result(HANG) == ("OwnError", "from below")


def test_a_parent_whose_worker_dies_while_it_waits_is_lost(executor: gristmill.Executor) -> None:
    with pytest.raises(gristmill.WorkerLostError):
        executor.submit(wait_for_death).result(HANG)
    assert executor.submit(fib, 5).result(HANG) == 5


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
    with pytest.raises(gristmill.TaskTimeoutError):
        future.result(HANG)
    Path(never).touch()
    assert executor.submit(fib, 5).result(HANG) == 5


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


def test_an_executor_goes_nowhere_else(one: gristmill.Executor) -> None:
    with pytest.raises(TypeError, match="executor cannot be sent"):
        one.__reduce__()
    with pytest.raises(gristmill.UnpicklableError):
        one.submit(gristmill.current_executor).result(HANG)
    with pytest.raises(RuntimeError, match="no current executor"):
        gristmill.current_executor()


def test_functions_by_value_in_tasks(executor: gristmill.Executor) -> None:
    assert executor.submit(by_value, 3).result(HANG) == [0, 3, 6, 9, 12]


def test_nested_futures_as_arguments(executor: gristmill.Executor) -> None:
    assert executor.submit(futures_as_arguments).result(HANG) == [4, 6, 12, 26]


def test_a_failed_nested_argument(executor: gristmill.Executor) -> None:
    assert executor.submit(failed_argument).result(HANG) == "DependencyError OwnError"


def test_a_nested_task_without_a_waiter_runs_on_and_shutdown_waits_for_it(tmp_path: Path) -> None:
    with gristmill.Executor(max_workers=1) as ex:
        ex.submit(forget, str(tmp_path), 50)
    assert len(list(tmp_path.iterdir())) == 50


def test_shutdown_waits_for_nested_tasks() -> None:
    ex = gristmill.Executor(max_workers=1)
    future = ex.submit(fib, 10)
    ex.shutdown(wait=True)
    assert future.done()
    assert future.result(HANG) == 55


@pytest.mark.interpreter
def test_futures_in_a_task_are_futures(executor: gristmill.Executor) -> None:
    assert executor.submit(use_futures).result(HANG) == [10, 0, 18, [100, 100], 14, True]


def test_map_in_a_task(executor: gristmill.Executor) -> None:
    assert executor.submit(use_map).result(HANG) == [True, True, [4, 6], 0, [2]]


def test_a_map_in_a_task_goes_on_after_an_item_that_raises(one: gristmill.Executor) -> None:
    assert one.submit(walk_maps).result(HANG) == [
        [0, "OwnError", 2, "RuntimeError", 4],
        [0, "OwnError", 2, "RuntimeError", 4],
        ["0", "2", "4", "OwnError", "RuntimeError"],
        [0, "UnpicklableError", 4],
        ["OwnError"],
        [],
    ]


@pytest.mark.parametrize("options", [{"ordered": "x"}, {"ordered": 2}, {"progress": "x"}])
def test_flags_of_a_map_in_a_task(one: gristmill.Executor, options: dict[str, Any]) -> None:
    assert "must be True or False" in one.submit(map_wrongly, options).result(HANG)


@pytest.mark.interpreter
@pytest.mark.parametrize("way", ["await", "wrap_future", "run_in_executor"])
def test_a_loop_in_a_task_is_told_that_it_cannot_wait(
    one: gristmill.Executor, tmp_path: Path, way: str
) -> None:
    told = one.submit(await_one, way, str(tmp_path / "go"), False).result(HANG)
    assert "an asyncio loop inside a task cannot wait" in told


@pytest.mark.parametrize("way", ["await", "wrap_future"])
def test_a_loop_in_a_task_gets_what_there_is(
    one: gristmill.Executor, tmp_path: Path, way: str
) -> None:
    assert one.submit(await_one, way, str(tmp_path / "go"), True).result(HANG) == 42


def test_polling_a_nested_future_comes_to_an_end(executor: gristmill.Executor) -> None:
    assert executor.submit(poll_until_done).result(HANG) == 42


def test_the_timeout_of_a_nested_task(executor: gristmill.Executor, tmp_path: Path) -> None:
    assert executor.submit(time_out, str(tmp_path / "never")).result(HANG) == "timed out"


def test_cancelling_a_nested_task(executor: gristmill.Executor, tmp_path: Path) -> None:
    said, raised, state = executor.submit(cancel_one, str(tmp_path)).result(HANG)
    assert said == raised == state
    assert said != (tmp_path / "1").exists()


def test_cancelling_a_nested_task_that_waits_for_its_arguments(tmp_path: Path) -> None:
    with gristmill.Executor(max_workers=2) as ex:
        path = str(tmp_path / "go")
        blocker = ex.submit(wait_for_file, path)
        future = ex.submit(blocked_and_cancelled, path)
        assert future.result(HANG) == [True, True]
        blocker.result(HANG)


def test_nested_tasks_are_served_while_the_program_does_something_else(
    executor: gristmill.Executor, tmp_path: Path
) -> None:
    path = tmp_path / "told"
    future = executor.submit(tell, str(path))
    wait_for_file(str(path))
    future.result(HANG)


def test_a_task_s_other_threads_have_no_executor(one: gristmill.Executor) -> None:
    assert "thread" in one.submit(in_a_thread).result(HANG)


def test_a_task_waits_only_for_what_it_submitted(one: gristmill.Executor, tmp_path: Path) -> None:
    kept = one.submit(keep, str(tmp_path / "done"))
    kept.result(HANG)
    used = one.submit(use_kept)
    (tmp_path / "done").touch()
    *errors, done = used.result(HANG)
    assert done in ("False", "True")
    assert all("itself" in error for error in errors)
    assert len(errors) == (3 if done == "False" else len(errors))


def test_definitions_larger_than_a_record(executor: gristmill.Executor) -> None:
    assert executor.submit(large).result(HANG) == [2, 40_001]


def test_a_nested_task_that_is_not_accepted_raises_that(tmp_path: Path) -> None:
    started, go = str(tmp_path / "started"), str(tmp_path / "go")
    ex = gristmill.Executor(max_workers=1)
    future = ex.submit(stopped_then_refused, started, go)
    wait_for_file(started)
    ex.shutdown(wait=False, cancel_futures=True)
    Path(go).touch()
    assert future.result(HANG) == "refused"
    ex.shutdown(wait=True)


@pytest.mark.parametrize("fetches", [False, True])
def test_results_go_with_their_futures(one: gristmill.Executor, fetches: bool) -> None:
    count, size = 1_000, 30_000
    freed = one.submit(freed_with_futures, count, size, fetches).result(HANG)
    if freed == -1:
        pytest.skip("the C library does not tell what is allocated")
    assert freed > count * size * 0.9


@pytest.mark.parametrize("use", [fib, chain])
def test_many_parents_at_once(executor: gristmill.Executor, use: Callable[[int], int]) -> None:
    expected = {fib: 13, chain: 7}[use]
    assert list(executor.map(use, [7] * 100, timeout=HANG)) == [expected] * 100


@pytest.mark.parametrize("ask", [callback_past_a_handler, waits_past_a_handler])
def test_a_handler_in_a_task_waits_for_a_future_that_is_just_asked_for(
    one: gristmill.Executor, ask: Callable[[], bool]
) -> None:
    assert one.submit(ask).result(HANG)
