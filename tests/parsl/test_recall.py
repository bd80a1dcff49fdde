"""Calls of apps with ``cache=True`` that the engine runs by itself: as fast as plain calls, and remembered as other
calls.
"""

from __future__ import annotations

import gc
import threading
import weakref
from collections.abc import Callable
from concurrent.futures import CancelledError, as_completed, wait
from pathlib import Path
from typing import Any

import pytest

from gristmill.parsl import AUTO_LOGNAME, DataFlowKernel, GristmillExecutor, python_app
from gristmill.parsl._kernel.checkpoint import KnownResults
from gristmill.parsl._kernel.engine_futures import EngineFuture
from gristmill.parsl._kernel.exit_checkpoints import CheckpointedFuture
from gristmill.parsl.dataflow.memoization import BasicMemoizer
from gristmill.parsl.dataflow.states import States
from gristmill.parsl.utils import get_all_checkpoints, get_last_checkpoint

import calls
from kernels import configuration
from stage import Gate

MODES = [None, "task_exit", "dfk_exit"]


@pytest.fixture(params=MODES)
def kernel(request: pytest.FixtureRequest, make_kernel: Any) -> Any:
    """Returns a kernel on the engine, for each checkpoint mode."""
    return make_kernel("engine", memoizer=BasicMemoizer(checkpoint_mode=request.param))


def cached(kernel: Any, function: Callable[..., Any], **options: Any) -> Any:
    return python_app(function, data_flow_kernel=kernel, cache=True, **options)


def stored(folder: Path) -> int:
    """Returns the number of results in the checkpoints of a run's folder."""
    known = KnownResults()
    for checkpoint in get_all_checkpoints(str(folder)):
        known.load(checkpoint)
    return len(known)


def test_a_call_is_run_by_the_engine_once(kernel: Any, tmp_path: Path) -> None:
    note = tmp_path / "note"
    app = cached(kernel, calls.log_and_give)
    first = app(str(note), [1, 2])
    assert isinstance(first, (EngineFuture, CheckpointedFuture))
    assert first.result() == [1, 2]
    again = app(str(note), [1, 2])
    assert again.result() == [1, 2]
    assert (first.task_status(), again.task_status()) == ("exec_done", "memo_done")
    assert note.read_text().split("\n")[:-1] == ["[1, 2]"]


def test_a_call_that_shares_another_ones_result_is_counted_once(kernel: Any, hold: Gate) -> None:
    app = cached(kernel, calls.enter)
    first = app(hold.path, 7)
    hold.wait_entered()
    second = app(hold.path, 7)
    hold.open()
    assert first.result() == second.result()
    kernel.wait_for_current_tasks()
    counts = kernel.task_state_counts
    counted = {state.name: count for state, count in counts.items() if count}
    assert counted == {"exec_done": 1, "memo_done": 1}


def test_a_call_that_runs_is_waited_for(kernel: Any, hold: Gate) -> None:
    app = cached(kernel, calls.enter)
    first, second = app(hold.path, 7), app(hold.path, 7)
    hold.wait_entered()
    assert not first.done()
    assert not second.done()
    hold.open(1)
    assert (first.result(), second.result()) == (7, 7)
    assert second.task_status() == "memo_done"


def test_of_many_threads_with_one_call_one_runs_it(kernel: Any, tmp_path: Path) -> None:
    note = tmp_path / "note"
    app, futures = cached(kernel, calls.log_and_give), []
    barrier = threading.Barrier(8)

    def submit() -> None:
        barrier.wait()
        for value in range(20):
            futures.append(app(str(note), value))

    threads = [threading.Thread(target=submit) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(future.result() for future in futures) == sorted([*range(20)] * 8)
    assert sorted(map(int, note.read_text().split())) == list(range(20))


def test_a_failure_is_remembered(kernel: Any, tmp_path: Path) -> None:
    note = tmp_path / "note"
    app = cached(kernel, calls.log_and_fail)
    for _ in range(3):
        with pytest.raises(ValueError, match="no"):
            app(str(note)).result()
    assert note.read_text().split() == ["ran"]


def test_a_cancelled_call_is_forgotten(kernel: Any, hold: Gate) -> None:
    app = cached(kernel, calls.enter)
    first = app(hold.path)
    hold.wait_entered()
    assert first.cancel()
    with pytest.raises(CancelledError):
        first.result()
    assert first.cancelled()
    second = app(hold.path)
    hold.wait_entered()
    hold.open(1)
    assert second.result() is None
    assert second.task_status() == "exec_done"


def test_waits_see_the_end(kernel: Any) -> None:
    app = cached(kernel, calls.same)
    futures = [app(number) for number in range(300)]
    assert {future.result() for future in as_completed(futures)} == set(range(300))
    more = [app(number) for number in range(300, 600)]
    assert not wait(more).not_done
    seen: list[Any] = []
    called = threading.Event()
    last = app("last")
    last.add_done_callback(lambda future: (seen.append(future.result()), called.set()))
    called.wait()
    assert seen == ["last"]


def test_waiting_for_all_tasks_waits_for_these(kernel: Any) -> None:
    app = cached(kernel, calls.same)
    futures = [app(number) for number in range(500)]
    kernel.wait_for_current_tasks()
    assert all(future.done() for future in futures)
    assert kernel.task_state_counts[States.exec_done] == 500


def test_their_futures_are_arguments_of_other_calls(kernel: Any) -> None:
    app = cached(kernel, calls.add)
    plain = python_app(calls.add, data_flow_kernel=kernel)
    assert app(plain(app(1, 2), 3), app(4, 5)).result() == 15


def test_special_arguments_are_for_the_graph(kernel: Any) -> None:
    app = cached(kernel, lambda value, parsl_resource_specification=None: value)
    assert app(1, parsl_resource_specification={"priority": 1}).result() == 1
    echo = cached(kernel, lambda value, stdout=AUTO_LOGNAME: value)
    assert echo(2).result() == 2


def test_ignored_arguments_do_not_matter(kernel: Any) -> None:
    app = cached(kernel, calls.both, ignore_for_cache=["noise"])
    assert app(1, noise=1).result() == ((1,), {"noise": 1})
    assert app(1, noise=2).result() == ((1,), {"noise": 1})


def test_retries_come_first(make_kernel: Any, tmp_path: Path) -> None:
    kernel = make_kernel("engine", retries=2, memoizer=BasicMemoizer(checkpoint_mode="task_exit"))
    note = tmp_path / "note"
    with pytest.raises(ValueError, match="no"):
        cached(kernel, calls.log_and_fail)(str(note)).result()
    assert note.read_text().split() == ["ran"] * 3


def test_a_result_that_was_seen_is_in_the_checkpoint(make_kernel: Any, tmp_path: Path) -> None:
    kernel = make_kernel("engine", memoizer=BasicMemoizer(checkpoint_mode="task_exit"))
    app = cached(kernel, calls.same)
    for number in range(100):
        assert app(number).result() == number
        assert stored(Path(kernel.config.run_dir)) == number + 1


@pytest.mark.parametrize("mode", ["task_exit", "dfk_exit"])
def test_the_next_run_has_the_results_of_this_one(
    make_kernel: Any, tmp_path: Path, mode: Any
) -> None:
    note = tmp_path / "note"
    for expected in ("exec_done", "memo_done"):
        kernel = make_kernel("engine", memoizer=BasicMemoizer(checkpoint_mode=mode))
        app = cached(kernel, calls.log_and_give)
        futures = [app(str(note), number) for number in range(50)]
        assert [future.result() for future in futures] == list(range(50))
        assert {future.task_status() for future in futures} == {expected}
        kernel.cleanup()
    assert len(note.read_text().split()) == 50


@pytest.mark.parametrize("kind", ["threads", "engine"])
@pytest.mark.parametrize("mode", ["task_exit", "dfk_exit", "manual"])
def test_the_last_checkpoint_has_the_results_of_earlier_runs_that_the_last_one_used(
    make_kernel: Any, tmp_path: Path, kind: str, mode: Any
) -> None:
    note = tmp_path / "note"
    for files in (None, None, "last"):
        runs = tmp_path / "runs"
        last = files and get_last_checkpoint(str(runs))
        kernel = make_kernel(
            kind, memoizer=BasicMemoizer(checkpoint_mode=mode, checkpoint_files=last)
        )
        app = cached(kernel, calls.log_and_give)
        # Each value is computed twice and written once.
        assert [app(str(note), number % 5).result() for number in range(10)] == [0, 1, 2, 3, 4] * 2
        assert app(str(note), 5).result() == 5
        kernel.cleanup()
        assert kernel.memoizer.checkpointed_tasks == 6
    assert len(note.read_text().split()) == 6


def test_two_engines_do_not_mix_their_tasks(make_kernel: Any) -> None:
    executors = [GristmillExecutor(label, max_workers=1) for label in ("one", "two")]
    memoizer = BasicMemoizer(checkpoint_mode="task_exit")
    kernel = make_kernel("engine", executors=executors, memoizer=memoizer)
    apps = [cached(kernel, calls.same, executors=[one.label]) for one in executors]
    futures = [apps[number % 2](number) for number in range(200)]
    assert all(isinstance(future, CheckpointedFuture) for future in futures)
    assert [future.result() for future in futures] == list(range(200))


def close_cycle(future: Any, way: str) -> Any:
    if way == "value":
        future.result().update(itself=future)
    elif way == "callback":
        future.add_done_callback(lambda _: future)
    else:
        wait([future])
        future.itself = future
    assert future.result()["one"] == 1
    return weakref.ref(future)


@pytest.mark.interpreter
@pytest.mark.parametrize("way", ["value", "callback", "wait"])
def test_cycles_through_futures_are_collected(make_kernel: Any, way: str) -> None:
    kernel = make_kernel("engine", memoizer=BasicMemoizer(checkpoint_mode="task_exit"))
    reference = close_cycle(cached(kernel, calls.same)({"one": 1}), way)
    kernel.cleanup()
    gc.collect()
    assert reference() is None


@pytest.mark.interpreter
@pytest.mark.parametrize("mode", MODES)
def test_a_kernel_that_has_ended_goes_with_its_engine(tmp_path: Path, mode: Any) -> None:
    memoizer = BasicMemoizer(checkpoint_mode=mode)
    kernel = DataFlowKernel(configuration("engine", tmp_path, memoizer=memoizer))
    future = cached(kernel, calls.same)([1])
    assert future.result() == [1]
    kernel.cleanup()
    engine = weakref.ref(kernel.executors["here"])
    del kernel
    gc.collect()
    assert engine() is not None, "its future is still there"
    del future
    gc.collect()
    assert engine() is None


def test_the_record_of_a_task_has_its_key(make_kernel: Any) -> None:
    kernel = make_kernel("engine", memoizer=BasicMemoizer(checkpoint_mode="task_exit"))
    future = cached(kernel, calls.same)(5)
    record = future.task_record
    assert record["memoize"] is True
    assert record["app_fu"] is future
    assert kernel.memoizer.memo_lookup_table[record["hashsum"]] is future
    assert record["id"] == future.tid


def test_with_memoize_off_each_call_runs(make_kernel: Any, tmp_path: Path) -> None:
    kernel = make_kernel("engine", memoizer=BasicMemoizer(memoize=False))
    note = tmp_path / "note"
    app = cached(kernel, calls.log_and_give)
    assert [app(str(note), 1).result() for _ in range(3)] == [1, 1, 1]
    assert note.read_text().split() == ["1"] * 3
