"""The stand-by: a process that is forked ahead, and becomes the next worker."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from gristmill import Executor, WorkerLostError

import calls
from stage import Script, lives, next_stand_by, stand_bys

MakeExecutor = Callable[..., Executor]


def _kill(executor: Executor) -> None:
    with pytest.raises(WorkerLostError):
        executor.submit(os.kill, executor.submit(calls.pid).result(), signal.SIGKILL).result()


def test_a_lost_worker_is_replaced_by_the_stand_by(make_executor: MakeExecutor) -> None:
    before = set(stand_bys())
    executor = make_executor(1)
    executor.submit(calls.nothing).result()
    for _ in range(3):
        stand_by = next_stand_by(before)
        assert executor.submit(calls.pid).result() != stand_by
        _kill(executor)
        assert executor.submit(calls.pid).result() == stand_by
    assert executor.stats().workers_lost == 3
    assert executor.stats().start_failures == 0


def test_a_worker_is_replaced_though_the_stand_by_was_killed(make_executor: MakeExecutor) -> None:
    before = set(stand_bys())
    executor = make_executor(1)
    worker = executor.submit(calls.pid).result()
    stand_by = next_stand_by(before)
    os.kill(stand_by, signal.SIGKILL)
    while lives(stand_by):
        time.sleep(0.001)
    assert executor.submit(calls.pid).result() == worker, "no other task noticed"
    _kill(executor)
    assert executor.submit(calls.pid).result() not in (worker, stand_by)


def test_a_stand_by_runs_the_initializer_only_as_a_worker(
    make_executor: MakeExecutor, tmp_path: Path
) -> None:
    before = set(stand_bys())
    note = tmp_path / "note"
    executor = make_executor(1, initializer=calls.note_process, initargs=(str(note),))
    worker = executor.submit(calls.pid).result()
    stand_by = next_stand_by(before)
    assert note.read_text().split() == [str(worker)]
    _kill(executor)
    assert executor.submit(calls.pid).result() == stand_by
    assert note.read_text().split() == [str(worker), str(stand_by)]


def test_later_workers_share_what_the_first_ones_had_to_load(make_executor: MakeExecutor) -> None:
    before = set(stand_bys())
    executor = make_executor(1)
    assert not executor.submit(calls.is_loaded, "cloudpickle").result()
    next_stand_by(before)
    _kill(executor)
    assert executor.submit(calls.is_loaded, "cloudpickle").result()


def test_a_stand_by_has_seeds_and_an_epoch_of_its_own(make_executor: MakeExecutor) -> None:
    before = set(stand_bys())
    executor = make_executor(1, preload=["random"])
    draws, slots = [], []
    for _ in range(3):
        draws.append(executor.submit(calls.draw).result())
        slots.append(executor.submit(os.getenv, "GRISTMILL_WORKER").result())
        next_stand_by(before)
        _kill(executor)
    assert len(set(draws)) == 3
    assert len(set(slots)) == 3, "each has an epoch of its own"


def test_workers_are_not_called_stand_bys(make_executor: MakeExecutor) -> None:
    before = set(stand_bys())
    executor = make_executor(1)
    first = executor.submit(calls.process_name).result()
    next_stand_by(before)
    _kill(executor)
    assert executor.submit(calls.process_name).result() == first


def test_a_stand_by_ends_with_its_executor(make_executor: MakeExecutor) -> None:
    before = set(stand_bys())
    executor = make_executor(1)
    executor.submit(calls.nothing).result()
    stand_by = next_stand_by(before)
    executor.shutdown()
    assert not lives(stand_by)


def test_a_stand_by_ends_with_the_keeper(script: Script) -> None:
    printed = script.run(
        """
        import os, signal, time
        import calls, gristmill, stage

        executor = gristmill.Executor(1)
        executor.submit(calls.nothing).result()
        stand_by = stage.next_stand_by(set())
        (keeper,) = stage.keepers()
        os.kill(keeper, signal.SIGKILL)
        while stage.lives(stand_by):
            time.sleep(0.001)
        print(executor.submit(calls.same, 7).result())
        """
    )
    assert printed == "7\n"
