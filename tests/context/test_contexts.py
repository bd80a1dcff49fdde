"""Function contexts: set up once, used by every call, and never lost."""

from __future__ import annotations

import gc
import mmap
import os
import signal
import time
import weakref
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from gristmill import Context, ContextWorkers, Executor, WorkerLostError, _functions

import calls
import setups
from setups import Log, load, open_and_close
from stage import Gate

MakeExecutor = Callable[..., Executor]

#: A context that is a global variable during a test.
passing: Any = None


def test_large_arguments_of_a_setup_are_shared_and_changed_for_oneself_alone(
    make_executor: MakeExecutor, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GRISTMILL_LOCAL_DIR", str(tmp_path))
    table, row = np.arange(1 << 17), np.ones(1 << 14)

    def change(table: np.ndarray[Any, Any], row: np.ndarray[Any, Any], word: str) -> dict[str, Any]:
        table[0] += 1
        return {"sum": int(table.sum() + row.sum()), "word": word}

    context = Context(change, table, row, "end", workers=ContextWorkers(fork=False))
    options = make_executor(2).options(context=context)
    for _ in range(2):
        assert options.submit(lambda: context["sum"]).result() == table.sum() + row.size + 1
    assert table[0] == 0
    assert options.submit(lambda: context["word"]).result() == "end"


def test_the_setup_runs_once_and_every_call_has_what_it_left(executor: Executor, log: Log) -> None:
    context = Context(load, log)
    options = executor.options(context=context)
    futures = [options.submit(lambda place: context["model"][place], place) for place in range(10)]
    assert [future.result() for future in futures] == list(range(10))
    assert list(options.map(lambda place: context["model"][place] + 1, range(9))) == [*range(1, 10)]
    assert len(log.pids("load")) == 1


def test_a_function_that_reads_a_context_is_described_once(
    executor: Executor, log: Log, monkeypatch: pytest.MonkeyPatch
) -> None:
    described: list[object] = []
    describe = _functions.definition

    def note(function: Callable[..., object], *dependencies: Any) -> bytes:
        described.append(function)
        return describe(function, *dependencies)

    context = Context(load, log)
    options = executor.options(context=context)

    def at(place: int) -> object:
        return context["model"][place]

    assert options.submit(at, 1).result() == 1
    monkeypatch.setattr(_functions, "definition", note)
    assert [options.submit(at, place).result() for place in range(5)] == [*range(5)]
    assert described == []
    context = Context(load, log, 3)
    assert executor.options(context=context).submit(at, -1).result() == 2
    assert described.count(at) == 1, "it reads another one"


def test_a_context_that_is_a_global_goes_when_the_program_drops_it(
    executor: Executor, log: Log
) -> None:
    global passing
    passing = Context(open_and_close, log)
    dropped = weakref.ref(passing)

    def maker() -> object:
        return passing["maker"]

    options = executor.options(context=passing)
    for _ in range(2):
        options.submit(maker).result()
    del options
    passing = None
    gc.collect()
    assert dropped() is None
    assert executor.submit(abs, -1).result() == 1


def test_workers_are_forked_from_the_process_that_was_set_up(
    make_executor: MakeExecutor, log: Log, gate: Gate
) -> None:
    context = Context(load, log)
    options = make_executor(3).options(context=context)
    maker = options.submit(lambda: context["maker"]).result()
    futures = [options.submit(calls.enter, gate.path) for _ in range(3)]
    workers = {gate.wait_entered() for _ in range(3)}
    gate.open(3)
    for future in futures:
        future.result()
    assert len(workers) == 3
    assert maker not in workers
    assert log.pids("load") == [maker]


def test_functions_of_a_module_use_the_contexts_that_it_makes(executor: Executor) -> None:
    assert executor.options(context=setups.hello).submit(setups.greet, "you").result() == (
        "hello, you"
    )
    assert executor.options(context=setups.goodbye).submit(setups.part, "you").result() == (
        "goodbye, you"
    )


def test_a_context_is_used_through_the_executor_that_was_made_last(
    executor: Executor, log: Log
) -> None:
    context = Context(load, log)
    assert context.submit(lambda: len(context["model"])).result() == 10
    assert list(context.map(lambda place: context["model"][place], [3, 4])) == [3, 4]
    assert "model" in context.submit(lambda: list(context)).result()
    assert context.submit(lambda: "other" in context).result() is False


def test_an_exception_costs_nothing(executor: Executor, log: Log) -> None:
    context = Context(load, log)
    options = executor.options(context=context)
    before = options.submit(os.getpid).result()
    with pytest.raises(ZeroDivisionError):
        options.submit(lambda: len(context["model"]) / 0).result()
    with pytest.raises(KeyError, match="nothing"):
        options.submit(lambda: context["nothing"]).result()
    assert options.submit(os.getpid).result() == before
    assert len(log.pids("load")) == 1


def test_a_worker_that_is_killed_is_forked_anew_without_another_setup(
    make_executor: MakeExecutor, log: Log
) -> None:
    context = Context(load, log)
    options = make_executor(1).options(context=context)
    with pytest.raises(WorkerLostError):
        options.submit(lambda: os.kill(os.getpid(), signal.SIGKILL)).result()
    assert options.submit(lambda: context["model"][7]).result() == 7
    assert len(log.pids("load")) == 1


def test_what_follows_the_yield_runs_once_when_the_executor_ends(
    make_executor: MakeExecutor, log: Log
) -> None:
    context = Context(open_and_close, log)
    executor = make_executor(2)
    maker = executor.options(context=context).submit(lambda: context["maker"]).result()
    assert log.pids("close") == []
    executor.shutdown()
    assert log.pids("open") == log.pids("close") == [maker]


def test_a_context_that_is_released_ends_and_is_set_up_anew_when_it_is_used_again(
    make_executor: MakeExecutor, log: Log
) -> None:
    context = Context(open_and_close, log)
    executor = make_executor(1)
    options = executor.options(context=context)
    first = options.submit(lambda: context["maker"]).result()
    context.release()
    assert context.report(executor) is None
    second = options.submit(lambda: context["maker"]).result()
    assert first != second
    executor.shutdown()
    assert sorted(log.pids("close")) == sorted([first, second])


def test_contexts_and_plain_tasks_share_workers(make_executor: MakeExecutor, log: Log) -> None:
    executor = make_executor(2)
    contexts = [Context(load, log, size) for size in (1, 2, 3)]
    everything = []
    for _ in range(50):
        everything += [executor.submit(abs, -1)]
        everything += [
            executor.options(context=one).submit(lambda one=one: len(one["model"]))
            for one in contexts
        ]
    assert [future.result() for future in everything] == [1, 1, 2, 3] * 50


def test_no_more_workers_than_slots_have_a_context(make_executor: MakeExecutor, log: Log) -> None:
    context = Context(load, log, workers=ContextWorkers(max_workers=1))
    executor = make_executor(3)
    options = executor.options(context=context)
    futures = [options.submit(os.getpid) for _ in range(200)]
    assert len({future.result() for future in futures}) == 1
    report = context.report(executor)
    assert report is not None
    assert (report.workers, report.deployments, report.setups) == (1, 1, 1)


def test_a_context_reports_what_it_cost_and_was_good_for(executor: Executor, log: Log) -> None:
    context = Context(load, log, name="numbers", workers=ContextWorkers(max_workers=1))
    assert context.report(executor) is None
    for _ in executor.options(context=context).map(lambda place: context["model"][place], range(9)):
        pass
    report = context.report(executor)
    assert report is not None
    assert (report.name, report.calls, report.share_value) == ("numbers", 9, 9.0)
    assert report.setup_seconds > 0
    assert report.call_seconds > 0
    assert report.memory > 1 << 20
    assert (report.running, report.waiting, report.failure) == (0, 0, None)


def test_a_context_is_used_in_this_process_too(log: Log) -> None:
    context = Context(open_and_close, log)
    with context:
        assert context["maker"] == os.getpid()
        assert log.pids("close") == []
    assert log.pids("close") == [os.getpid()]


def test_each_worker_sets_up_for_itself_where_none_is_forked(
    make_executor: MakeExecutor, log: Log, gate: Gate
) -> None:
    for fork, start in ((False, "fork"), (True, "spawn")):
        context = Context(open_and_close, log, name=start, workers=ContextWorkers(fork=fork))
        executor = make_executor(2, start=start)
        options = executor.options(context=context)
        before = len(log.pids("open"))
        assert options.submit(setups.is_made_here, context).result()
        futures = [options.submit(calls.enter, gate.path) for _ in range(2)]
        workers = {gate.wait_entered(), gate.wait_entered()}
        gate.open(2)
        for future in futures:
            future.result()
        assert set(log.pids("open")[before:]) == workers
        executor.shutdown()
        assert set(log.pids("close")[before:]) == workers


def test_an_initializer_runs_in_the_workers_of_contexts(
    make_executor: MakeExecutor, log: Log
) -> None:
    context = Context(load, log)
    options = make_executor(1, log.add, ("begin",)).options(context=context)
    worker = options.submit(os.getpid).result()
    assert worker in log.pids("begin")


def test_an_unused_context_goes_after_a_while(make_executor: MakeExecutor, log: Log) -> None:
    context = Context(open_and_close, log, workers=ContextWorkers(keep=0.1))
    executor = make_executor(1)
    options = executor.options(context=context)
    first = options.submit(lambda: context["maker"]).result()
    while not log.pids("close"):
        time.sleep(0.001)
    assert log.pids("close") == [first]
    assert options.submit(lambda: context["maker"]).result() != first


def test_where_memory_is_short_the_context_goes_that_was_used_longest_ago(
    make_executor: MakeExecutor, log: Log
) -> None:
    executor = make_executor(1, context_memory="1MB")
    makers = []
    for number in range(3):
        context = Context(open_and_close, log, name=str(number))
        options = executor.options(context=context)
        makers.append(options.submit(lambda context=context: context["maker"]).result())
        while len(log.pids("close")) < number:
            time.sleep(0.001)
        assert log.pids("close") == makers[:number]


def test_a_forked_child_of_the_program_leaves_its_contexts_alone(
    executor: Executor, log: Log
) -> None:
    context = Context(load, log)
    options = executor.options(context=context)
    assert options.submit(lambda: context["model"][3]).result() == 3
    child = os.fork()
    if child == 0:
        context.release()
        os._exit(0 if context.report(executor) is None else 1)
    assert os.waitpid(child, 0)[1] == 0
    assert options.submit(lambda: context["model"][4]).result() == 4
    assert len(log.pids("load")) == 1


def test_workers_share_large_objects_of_a_context_in_huge_pages(executor: Executor) -> None:
    if not _has_huge_pages():
        pytest.skip("this machine has no huge pages for programs that ask for them")
    context = Context(setups.fill, 32 << 20)
    options = executor.options(context=context)
    assert options.submit(lambda: len(context["filled"])).result() == 32 << 20
    assert options.submit(_huge_bytes).result() >= 2 << 20
    assert options.submit(os.environ.get, "GLIBC_TUNABLES").result() == os.environ.get(
        "GLIBC_TUNABLES"
    )


def _huge_bytes() -> int:
    with open("/proc/self/smaps_rollup") as rollup:
        sizes = [line.split()[1] for line in rollup if line.startswith("AnonHugePages:")]
    return int(sizes[0]) << 10


def _has_huge_pages() -> bool:
    with mmap.mmap(-1, 4 << 20, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS) as memory:
        memory[:] = bytes(range(256)) * (len(memory) // 256)
        try:
            memory.madvise(25)  # MADV_COLLAPSE: since Linux 6.1
        except OSError:
            return False
        return _huge_bytes() > 0
