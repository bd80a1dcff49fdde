"""The semantics of ``concurrent.futures.Executor``, and Gristmill's additions."""

from __future__ import annotations

import asyncio
import concurrent.futures
import contextlib
import inspect
import itertools
import os
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import gristmill
from gristmill import Executor, Future, _executor
from interrupted import at_each_place

import calls
from stage import Gate

MakeExecutor = Callable[..., Executor]


@pytest.mark.interpreter
def test_submit_gives_a_future_of_the_standard_library(shared: Executor) -> None:
    future = shared.submit(calls.add, 1, 2)
    assert isinstance(future, concurrent.futures.Future)
    assert isinstance(shared, concurrent.futures.Executor)
    assert future.result() == 3
    assert future.exception() is None
    assert future.done()
    assert not future.running()
    assert not future.cancelled()


@pytest.mark.interpreter
def test_every_keyword_belongs_to_the_function(shared: Executor) -> None:
    named = {"timeout": 1, "fn": 2, "self": 3, "retries": 4, "priority": 5, "start_within": 6}
    assert shared.submit(calls.both, **named).result() == ((), named)
    assert shared.options(retries=1).submit(calls.both, 7, **named).result() == ((7,), named)


@pytest.mark.interpreter
def test_submit_wants_a_callable(shared: Executor) -> None:
    with pytest.raises(TypeError):
        shared.submit()  # type: ignore[call-arg]
    with pytest.raises(TypeError, match="callable"):
        shared.submit(3)  # type: ignore[arg-type]


def test_a_result_that_is_not_there_in_time_is_a_timeout(shared: Executor, gate: Gate) -> None:
    future = shared.submit(calls.enter, gate.path, "value")
    gate.wait_entered()
    with pytest.raises(TimeoutError):
        future.result(timeout=0)
    with pytest.raises(concurrent.futures.TimeoutError):
        future.exception(timeout=0.001)
    assert future.running()
    gate.open()
    assert future.result(timeout=None) == "value"


@pytest.mark.interpreter
def test_an_exception_is_raised_and_given(shared: Executor) -> None:
    future = shared.submit(calls.fail, "why")
    with pytest.raises(ValueError, match="why"):
        future.result()
    assert isinstance(future.exception(), ValueError)


def test_the_same_value_each_time(shared: Executor) -> None:
    future = shared.submit(calls.same, [1, 2])
    assert future.result() is future.result()


def test_the_same_exception_each_time(shared: Executor) -> None:
    future = shared.submit(calls.fail)
    assert future.exception() is future.exception()


@pytest.mark.interpreter
def test_a_task_does_not_wait_behind_one_that_holds_its_worker_while_later_ones_begin(
    make_executor: MakeExecutor, gate: Gate
) -> None:
    executor = make_executor(2, nodes=None)
    held = executor.submit(calls.enter, gate.path)
    second = executor.submit(calls.nothing)
    later = [executor.submit(calls.enter, gate.path) for _ in range(4)]
    assert second.result() is None
    gate.open(5)
    for future in (held, *later):
        future.result()


def test_map_gives_results_in_order(shared: Executor) -> None:
    assert list(shared.map(calls.same, range(1000))) == list(range(1000))
    assert list(shared.map(calls.add, range(5), range(10, 20))) == [10, 12, 14, 16, 18]
    assert list(shared.map(calls.add, [], [1])) == []
    assert list(shared.map(pow, range(100), itertools.repeat(2), chunksize=7))[-1] == 99**2
    assert list(shared.map(calls.add)) == list(map(calls.add, *[()]))


def test_map_raises_where_the_item_failed(shared: Executor) -> None:
    results = shared.map(int, ["1", "x", "3"])
    assert next(results) == 1
    with pytest.raises(ValueError, match="'x'"):
        next(results)


def test_map_with_a_timeout(shared: Executor, gate: Gate) -> None:
    results = shared.map(calls.enter, [gate.path], timeout=0.01)
    with pytest.raises(TimeoutError):
        next(results)


@pytest.mark.interpreter
def test_map_refuses_the_arguments_that_the_standard_library_refuses(shared: Executor) -> None:
    with pytest.raises(ValueError, match="chunksize"):
        shared.map(calls.same, [1], chunksize=0)
    with pytest.raises(ValueError, match="buffersize"):
        shared.map(calls.same, [1], buffersize=0)
    with pytest.raises(TypeError):
        shared.map(calls.same, 3)  # type: ignore[arg-type]


def test_map_submits_at_once_without_being_asked(shared: Executor, gate: Gate) -> None:
    results = shared.map(calls.enter, [gate.path], [1])
    gate.wait_entered()
    gate.open()
    assert list(results) == [1]


@pytest.mark.parametrize("buffersize", [1, 3, 100])
def test_map_runs_no_further_ahead_than_its_buffer(shared: Executor, buffersize: int) -> None:
    taken = 0

    def items() -> itertools.count[int]:
        nonlocal taken
        for item in itertools.count():
            taken = item + 1
            yield item  # type: ignore[misc]

    results = shared.map(calls.same, items(), buffersize=buffersize)
    assert taken == buffersize
    for place in range(300):
        assert next(results) == place
        assert taken <= place + 1 + buffersize


def test_map_over_an_infinite_iterable(shared: Executor) -> None:
    results = shared.map(calls.same, itertools.count())
    assert [next(results) for _ in range(50_000)] == list(range(50_000))


def test_map_out_of_order_gives_what_is_there(shared: Executor, gate: Gate) -> None:
    work: list[tuple[str, ...]] = [("held",), *[("free",)] * 20]
    results = shared.map(
        lambda item, path=gate.path: calls.enter(path, item) if item == "held" else item,
        [kind for (kind,) in work],
        ordered=False,
    )
    assert [next(results) for _ in range(20)] == ["free"] * 20
    gate.open()
    assert list(results) == ["held"]


def test_map_out_of_order_over_many(shared: Executor) -> None:
    assert sorted(shared.map(calls.same, range(3000), ordered=False)) == list(range(3000))


def test_an_exception_of_the_iterable_reaches_the_caller(shared: Executor) -> None:
    def items():  # type: ignore[no-untyped-def]
        yield 1
        raise KeyError("source")

    with pytest.raises(KeyError, match="source"):
        list(shared.map(calls.same, items()))


def test_a_map_dropped_after_a_result_cancels_what_has_not_started(
    executor: Executor, gate: Gate
) -> None:
    results = executor.map(calls.enter_if_path, ["", *[gate.path] * 99])
    assert next(results) == ""
    gate.wait_entered()
    del results
    gate.close()
    executor.shutdown()
    stats = executor.stats()
    assert stats.cancelled + stats.succeeded == 100
    assert stats.cancelled >= 90


def test_a_small_window_of_a_map_keeps_every_worker_busy(shared: Executor, gate: Gate) -> None:
    results = shared.map(calls.enter_if_path, ["", gate.path, gate.path], buffersize=2)
    assert next(results) == ""
    waiter = threading.Thread(target=lambda: list(results))
    waiter.start()
    assert gate.wait_entered() != gate.wait_entered()
    gate.close()
    waiter.join()


def test_a_map_without_a_reader_runs_all_the_same(executor: Executor) -> None:
    executor.map(calls.same, range(20_000))
    executor.shutdown()
    assert executor.stats().succeeded == 20_000


def test_every_item_of_a_map_has_its_own_crash(executor: Executor) -> None:
    results = executor.map(lambda item: os._exit(3) if item == 5 else item, range(10))
    assert [next(results) for _ in range(5)] == [0, 1, 2, 3, 4]
    with pytest.raises(gristmill.WorkerLostError):
        next(results)


def test_shutdown_completes_what_is_pending(make_executor: MakeExecutor, gate: Gate) -> None:
    executor = make_executor(1)
    futures = [executor.submit(calls.enter, gate.path, number) for number in range(10)]
    executor.shutdown(wait=False)
    gate.open(10)
    assert [future.result() for future in futures] == list(range(10))


def test_shutdown_can_cancel_what_has_not_started(make_executor: MakeExecutor, gate: Gate) -> None:
    executor = make_executor(1)
    first = executor.submit(calls.enter, gate.path, "ran")
    gate.wait_entered()
    others = [executor.submit(calls.nothing) for _ in range(50)]
    executor.shutdown(wait=False, cancel_futures=True)
    assert all(future.cancelled() for future in others)
    gate.open()
    executor.shutdown()
    assert first.result() == "ran"


def test_no_task_after_shutdown(make_executor: MakeExecutor) -> None:
    for executor in (make_executor(1), make_executor(1)):
        executor.submit(calls.nothing).result()
        executor.shutdown()
        executor.shutdown()
        with pytest.raises(RuntimeError, match="after shutdown"):
            executor.submit(calls.nothing)
        with pytest.raises(gristmill.ShutDownError):
            executor.map(calls.same, [1])
    unused = make_executor(1)
    unused.shutdown()
    with pytest.raises(RuntimeError, match="after shutdown"):
        unused.submit(calls.nothing)


def test_results_outlive_the_executor() -> None:
    with Executor(1) as executor:
        futures = [executor.submit(calls.same, number) for number in range(100)]
        failed = executor.submit(calls.fail)
    assert [future.result() for future in futures] == list(range(100))
    assert isinstance(failed.exception(), ValueError)
    del executor
    assert futures[3].result() == 3
    assert futures[3].done()


def test_the_context_manager_waits(tmp_path: Path) -> None:
    note = str(tmp_path / "note")
    with Executor(2) as executor:
        for number in range(100):
            executor.submit(calls.append, note, str(number))
    assert len(Path(note).read_text().splitlines()) == 100


def test_a_forgotten_executor_finishes_its_work(gate: Gate, tmp_path: Path) -> None:
    note = tmp_path / "note"
    executor = Executor(1)
    futures = [executor.submit(calls.append, str(note), "one"), executor.submit(calls.same, 2)]
    del executor
    assert [future.result() for future in futures] == ["one", 2]


def test_the_arguments_are_checked() -> None:
    for wrong in (0, -1):
        with pytest.raises(ValueError, match="max_workers"):
            Executor(wrong)
    with pytest.raises(TypeError, match="initializer"):
        Executor(1, initializer=3)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="max_tasks_per_child"):
        Executor(1, max_tasks_per_child=0)
    with pytest.raises(ValueError, match="start"):
        Executor(1, start="thread")
    with pytest.raises(ValueError, match="when_full"):
        Executor(1, when_full="explode")
    with pytest.raises(TypeError):
        Executor(1, unknown=3)  # type: ignore[call-arg]


def test_a_worker_is_replaced_after_its_share_of_tasks(make_executor: MakeExecutor) -> None:
    executor = make_executor(1, max_tasks_per_child=3)
    pids = [executor.submit(calls.pid).result() for _ in range(10)]
    assert [len(list(group)) for _, group in itertools.groupby(pids)] == [3, 3, 3, 1]
    many = [future.result() for future in executor.submit_many(calls.pid, range(30))]
    assert all(many.count(one) <= 3 for one in many)


def test_the_initializer_runs_once_in_each_worker(
    make_executor: MakeExecutor, tmp_path: Path, gate: Gate
) -> None:
    note = str(tmp_path / "note")
    executor = make_executor(2, initializer=calls.append, initargs=(note, "ready"))
    futures = [executor.submit(calls.enter, gate.path) for _ in range(2)]
    assert gate.wait_entered() != gate.wait_entered()
    gate.open(2)
    concurrent.futures.wait(futures)
    assert Path(note).read_text().splitlines() == ["ready", "ready"]


@pytest.mark.interpreter
def test_the_initializer_may_be_a_closure(make_executor: MakeExecutor) -> None:
    word = "by value"

    def remember() -> None:
        os.environ["REMEMBERED"] = word

    executor = make_executor(1, remember)
    assert executor.submit(os.getenv, "REMEMBERED").result() == "by value"


@pytest.mark.interpreter
def test_wait_of_the_standard_library(shared: Executor, gate: Gate) -> None:
    held = shared.submit(calls.enter, gate.path)
    free = shared.submit(calls.same, 1)
    failed = shared.submit(calls.fail)
    done, pending = concurrent.futures.wait([held, free], return_when="FIRST_COMPLETED")
    assert (done, pending) == ({free}, {held})
    done, _ = concurrent.futures.wait([held, failed], return_when="FIRST_EXCEPTION")
    assert done == {failed}
    done, pending = concurrent.futures.wait([held, free], timeout=0.01)
    assert pending == {held}
    gate.open()
    done, pending = concurrent.futures.wait([held, free, failed])
    assert (len(done), len(pending)) == (3, 0)


@pytest.mark.interpreter
def test_wait_over_futures_of_several_kinds(shared: Executor, gate: Gate) -> None:
    own = shared.submit(calls.enter, gate.path)
    with concurrent.futures.ThreadPoolExecutor(1) as threads:
        other: concurrent.futures.Future[int] = threads.submit(calls.add, 1)
        done, _ = concurrent.futures.wait([own, other], return_when="FIRST_COMPLETED")
        assert done == {other}
        gate.open()
        assert len(concurrent.futures.wait([own, other]).done) == 2


@pytest.mark.interpreter
def test_as_completed(shared: Executor, gate: Gate) -> None:
    held = shared.submit(calls.enter, gate.path, "held")
    others = [shared.submit(calls.same, number) for number in range(50)]
    order = concurrent.futures.as_completed([held, *others])
    first = [next(order).result() for _ in range(50)]
    assert sorted(first) == list(range(50))
    gate.open()
    assert next(order) is held


def test_as_completed_with_a_timeout(shared: Executor, gate: Gate) -> None:
    held = shared.submit(calls.enter, gate.path)
    with pytest.raises(TimeoutError):
        list(concurrent.futures.as_completed([held], timeout=0.01))


def test_the_bag_protocol_of_the_standard_library(shared: Executor) -> None:
    todo = iter(range(2000))
    pending = {shared.submit(calls.same, next(todo)) for _ in range(4)}
    seen = []
    while pending:
        done, pending = concurrent.futures.wait(pending, return_when="FIRST_COMPLETED")
        for future in done:
            seen.append(future.result())
            pending |= {shared.submit(calls.same, item) for item in itertools.islice(todo, 1)}
    assert sorted(seen) == list(range(2000))


def test_wait_any(shared: Executor, gate: Gate) -> None:
    held = shared.submit(calls.enter, gate.path)
    free = shared.submit(calls.same, 1)
    assert gristmill.wait_any([held, free]) is free
    with pytest.raises(TimeoutError):
        gristmill.wait_any([held], timeout=0.01)
    with pytest.raises(ValueError, match="at least one"):
        gristmill.wait_any([])
    gate.open()
    assert gristmill.wait_any(iter([held])) is held


def test_submit_many(shared: Executor) -> None:
    futures = shared.submit_many(calls.add, range(100), range(100))
    assert [future.result() for future in futures] == [2 * number for number in range(100)]
    assert all(isinstance(future, Future) for future in futures)


@pytest.mark.interpreter
def test_asyncio(shared: Executor) -> None:
    async def main() -> list[int]:
        loop = asyncio.get_running_loop()
        one = await shared.submit(calls.add, 1)
        two = await asyncio.wrap_future(shared.submit(calls.add, 2))
        three = await loop.run_in_executor(shared, calls.add, 3)
        many = await asyncio.gather(*(shared.submit(calls.add, n) for n in range(100)))  # type: ignore[call-overload]
        with pytest.raises(ValueError, match="no"):
            await shared.submit(calls.fail)
        return [one, two, three, sum(many)]

    assert asyncio.run(main()) == [1, 2, 3, 4950]


@pytest.mark.interpreter
def test_asyncio_cancels(shared: Executor, gate: Gate) -> None:
    held = [shared.submit(calls.enter, gate.path) for _ in range(2)]
    for _ in held:
        gate.wait_entered()
    waiting = shared.submit(calls.nothing)

    async def main() -> None:
        waiter = asyncio.ensure_future(asyncio.wrap_future(waiting))
        await asyncio.sleep(0)
        waiter.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiter

    asyncio.run(main())
    assert waiting.cancelled()


@pytest.mark.interpreter
def test_callbacks(shared: Executor, gate: Gate) -> None:
    seen: list[object] = []
    is_called = threading.Semaphore(0)

    def callback(future: concurrent.futures.Future[str]) -> None:
        seen.append((future.result(), threading.current_thread() is threading.main_thread()))
        is_called.release()

    future = shared.submit(calls.enter, gate.path, "value")
    future.add_done_callback(callback)
    future.add_done_callback(callback)
    assert seen == []
    gate.open()
    is_called.acquire()
    is_called.acquire()
    assert [value for value, _ in seen] == ["value", "value"]  # type: ignore[misc]
    future.add_done_callback(callback)
    assert len(seen) == 3, "a callback of a final future runs at once"
    assert seen[2] == ("value", True)


def test_a_callback_runs_although_the_future_was_dropped(shared: Executor, gate: Gate) -> None:
    is_called = threading.Event()
    shared.submit(calls.enter, gate.path).add_done_callback(lambda _: is_called.set())
    gate.open()
    assert is_called.wait()


@pytest.mark.interpreter
def test_a_callback_that_raises_is_logged(
    shared: Executor, gate: Gate, caplog: pytest.LogCaptureFixture
) -> None:
    is_called = threading.Event()
    future = shared.submit(calls.enter, gate.path)

    def bad(_: object) -> None:
        raise RuntimeError("bad callback")

    future.add_done_callback(bad)
    future.add_done_callback(lambda _: is_called.set())
    gate.open()
    assert is_called.wait()
    assert "bad callback" in caplog.text


@pytest.mark.interpreter
def test_a_callback_may_submit(shared: Executor) -> None:
    chained: list[Future[int]] = []
    is_done = threading.Event()

    def callback(future: concurrent.futures.Future[int]) -> None:
        if future.result() < 100:
            chained.append(shared.submit(calls.add, future.result(), 1))
            chained[-1].add_done_callback(callback)
        else:
            is_done.set()

    shared.submit(calls.same, 0).add_done_callback(callback)
    assert is_done.wait()
    assert [future.result() for future in chained] == list(range(1, 101))


@pytest.mark.interpreter
def test_many_threads_share_one_executor(shared: Executor) -> None:
    def work(number: int) -> int:
        futures = [shared.submit(calls.add, number, step) for step in range(300)]
        return sum(future.result() for future in futures)

    with concurrent.futures.ThreadPoolExecutor(8) as threads:
        found = list(threads.map(work, range(8)))
    assert found == [300 * number + 44850 for number in range(8)]


def test_retries_of_a_task_that_raises(shared: Executor, tmp_path: Path) -> None:
    note = str(tmp_path / "note")
    assert shared.options(retries=2).submit(calls.fail_first, note, 2).result() == 3
    other = str(tmp_path / "other")
    with pytest.raises(ValueError, match="run 2"):
        shared.options(retries=1).submit(calls.fail_first, other, 2).result()


def test_loss_retries_of_a_task_whose_worker_dies(executor: Executor, tmp_path: Path) -> None:
    note = str(tmp_path / "note")
    assert executor.options(loss_retries=1).submit(calls.die_first, note, 1).result() == 2
    other = str(tmp_path / "other")
    with pytest.raises(gristmill.WorkerLostError):
        executor.submit(calls.die_first, other, 1).result()
    assert Path(other).read_text() == "run\n", "what may have started does not run twice unasked"


def test_a_deadline_stops_what_has_not_started(make_executor: MakeExecutor, gate: Gate) -> None:
    executor = make_executor(1)
    held = executor.submit(calls.enter, gate.path)
    gate.wait_entered()
    late = executor.options(start_within=0.01).submit(calls.nothing)
    with pytest.raises(gristmill.TaskTimeoutError, match="start_within"):
        late.result()
    in_time = executor.options(start_within=3600).submit(calls.same, 1)
    gate.open()
    assert held.result() is None
    assert in_time.result() == 1


def test_higher_priorities_run_earlier(
    make_executor: MakeExecutor, gate: Gate, tmp_path: Path
) -> None:
    executor = make_executor(1)
    note = str(tmp_path / "note")
    # Long tasks fill the worker's queue: the tasks behind them wait in order of their priority.
    for _ in range(4):
        executor.submit(calls.enter, gate.path)
    gate.wait_entered()
    for priority in (0, 5, -3, 9):
        executor.options(priority=priority).submit(calls.append, note, str(priority))
    gate.open(4)
    executor.shutdown()
    assert Path(note).read_text().split() == ["9", "5", "0", "-3"]


def test_map_takes_options(shared: Executor, tmp_path: Path) -> None:
    names = [str(tmp_path / f"note{number}") for number in range(3)]
    options = shared.options(retries=1)
    assert list(options.map(calls.fail_first, names, [1, 1, 1])) == [2, 2, 2]


def test_options_are_checked(shared: Executor) -> None:
    with pytest.raises(ValueError, match="timeout"):
        shared.options(timeout=-1)
    with pytest.raises((ValueError, OverflowError)):
        shared.options(retries=-1)
    with pytest.raises(TypeError):
        shared.options(tiemout=1)  # type: ignore[call-arg]


def test_progress_is_shown_on_a_terminal_only(
    shared: Executor, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    import sys

    assert list(shared.map(calls.same, range(3), progress=True)) == [0, 1, 2]
    assert capsys.readouterr().err == ""
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    assert list(shared.map(calls.same, range(3), progress=True)) == [0, 1, 2]
    assert "3/3" in capsys.readouterr().err
    assert list(shared.map(calls.same, iter(range(3)), progress=True)) == [0, 1, 2]
    assert "3 tasks" in capsys.readouterr().err


def test_an_executor_is_not_sent_to_another_process(shared: Executor) -> None:
    import pickle

    with pytest.raises(TypeError, match="executor"):
        pickle.dumps(shared)


def test_stats_count_every_end(make_executor: MakeExecutor) -> None:
    executor = make_executor(1)
    assert executor.stats() == gristmill.Stats()
    executor.submit(calls.nothing).result()
    executor.submit(calls.fail).exception()
    executor.submit(calls.leave, 1).exception()
    stats = executor.stats()
    assert (stats.submitted, stats.succeeded, stats.failed, stats.lost) == (3, 1, 1, 1)
    assert stats.outstanding == 0
    assert stats.workers_lost == 1


def test_options_that_are_made_already_are_bound(shared: Executor) -> None:
    options = gristmill.TaskOptions(retries=1)
    bound = shared.bind(options)
    assert bound.options is options
    assert bound.executor is shared
    assert bound.submit(calls.same, 1).result() == 1
    assert list(bound.map(calls.same, [1, 2])) == [1, 2]
    with pytest.raises(TypeError, match=r"options must be a gristmill\.TaskOptions"):
        shared.bind({"retries": 1})  # type: ignore[arg-type]


def test_an_executor_of_this_machine_has_no_nodes(shared: Executor) -> None:
    assert shared.nodes() == []


class WithoutInit(Executor):
    def __init__(self) -> None:
        """Skips the initialization of its base."""


class LeaseWithoutInit(gristmill.Lease):
    def __init__(self) -> None:
        """Skips the initialization of its base."""


class ContextWithoutInit(gristmill.Context):
    def __init__(self) -> None:
        """Skips the initialization of its base."""


@pytest.mark.parametrize("kind", [WithoutInit, LeaseWithoutInit])
@pytest.mark.parametrize(
    "use",
    [
        lambda executor: executor.submit(abs, -1),
        lambda executor: executor.map(abs, [-1]),
        lambda executor: executor.shutdown(),
        lambda executor: executor.shutdown(wait=False),
        lambda executor: executor.__exit__(None, None, None),
    ],
)
def test_an_executor_whose_init_was_not_called_says_so(
    kind: type[Executor], use: Callable[[Any], object]
) -> None:
    with pytest.raises(RuntimeError, match=r"Executor\.__init__ was not called"):
        use(kind.__new__(kind))


@pytest.mark.parametrize(
    "use",
    [
        lambda lease: lease.ends_in,
        lambda lease: lease.extend(1),
        lambda lease: lease.release(),
        lambda lease: lease.use(),
        lambda lease: lease.wait(),
    ],
)
def test_a_lease_whose_init_was_not_called_says_so(
    use: Callable[[gristmill.Lease], object],
) -> None:
    with pytest.raises(RuntimeError, match=r"Executor\.__init__ was not called"):
        use(LeaseWithoutInit())


@pytest.mark.parametrize(
    "use",
    [
        lambda context: context["name"],
        lambda context: "name" in context,
        lambda context: list(context),
        lambda context: context.submit(abs, -1),
        lambda context: context.map(abs, [-1]),
        lambda context: context.report(),
        lambda context: context.release(),
        lambda context: context.__enter__(),
        lambda context: context.__exit__(None, None, None),
        lambda context: context.key,
        lambda context: context.description,
        lambda context: context.__reduce__(),
    ],
)
def test_a_context_whose_init_was_not_called_says_so(
    shared: Executor, use: Callable[[gristmill.Context], object]
) -> None:
    context = ContextWithoutInit()
    assert "ContextWithoutInit" in repr(context)
    with pytest.raises(RuntimeError, match=r"Context\.__init__ was not called"):
        use(context)
    with pytest.raises(RuntimeError, match=r"Context\.__init__ was not called"):
        shared.options(context=context)


def test_the_signature_of_a_context_names_its_options() -> None:
    parameters = inspect.signature(gristmill.Context).parameters
    assert {"setup", "environment", "workers"} <= parameters.keys()


def test_executors_may_be_made_while_the_newest_is_looked_for() -> None:
    made: list[Executor] = []

    def make(_: object) -> None:
        made.append(Executor(1))

    def look(_: object) -> None:
        assert _executor.newest() in made

    def begin() -> None:
        made[:] = [Executor(1)]

    assert at_each_place(_executor, begin, look, make)


def test_a_handler_may_begin_a_map_while_an_executor_is_shut_down() -> None:
    results: list[Iterator[object]] = []

    def make() -> Executor:
        executor = Executor(1)
        results.extend(executor.map(calls.same, ()) for _ in range(3))
        return executor

    def begin(executor: Executor) -> None:
        with contextlib.suppress(RuntimeError):  # it is shut down already
            results.append(executor.map(calls.same, ()))

    assert at_each_place(_executor, make, Executor.shutdown, begin)
