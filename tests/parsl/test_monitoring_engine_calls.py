"""Plain calls that are monitored without resource measurements: the engine runs them by itself, and its timings
describe them.
"""

from __future__ import annotations

import gc
import sqlite3
import weakref
from collections import deque
from concurrent.futures import CancelledError
from pathlib import Path
from typing import Any

import pytest

import gristmill.parsl as parsl
from gristmill.parsl import GristmillExecutor
from gristmill.parsl._kernel.monitoring import database as databases
from gristmill.parsl._kernel.monitoring import engine_calls, recorder
from gristmill.parsl._kernel.monitoring import writer as writing
from gristmill.parsl._kernel.monitoring.engine_calls import EngineCalls

import monitored
import monitored_tasks
from calls import enter
from monitored import query
from stage import Gate

STATES = "SELECT task_status_name FROM status WHERE task_id = {} ORDER BY timestamp, rowid"


def run(folder: Path, **options: Any) -> Any:
    executor = GristmillExecutor(max_workers=1)
    return monitored.run(folder, executor=executor, resource_monitoring_enabled=False, **options)


def test_a_plain_call_stays_with_the_engine(tmp_path: Path) -> None:
    app = parsl.python_app(monitored_tasks.double)
    with run(tmp_path) as kernel:
        app(1).result()
        assert kernel.fast_paths.of(app) is not None
    assert query(tmp_path, STATES.format(0)) == [
        "pending",
        "launched",
        "running",
        "running_ended",
        "exec_done",
    ]


def test_a_call_that_may_be_tried_again_does_not(tmp_path: Path) -> None:
    app = parsl.python_app(monitored_tasks.fail)
    with run(tmp_path, retries=1) as kernel:
        assert kernel.fast_paths.of(app) is None
        app("badly").exception()
    assert (
        query(tmp_path, "SELECT task_fail_history FROM try ORDER BY try_id")
        == ["ValueError('badly')"] * 2
    )


def test_plain_calls_name_those_that_they_depend_on(tmp_path: Path) -> None:
    with run(tmp_path):
        first, second = (
            parsl.python_app(monitored_tasks.double)(1),
            parsl.python_app(monitored_tasks.double)(2),
        )
        parsl.python_app(pow)(first, exp=second).result()
        parsl.python_app(sum)([second, 5]).result()
    assert query(tmp_path, "SELECT task_depends FROM task ORDER BY task_id") == ["", "", "0,1", "1"]


def test_failures_of_plain_calls_are_told_apart(tmp_path: Path) -> None:
    with run(tmp_path):
        failed = parsl.python_app(monitored_tasks.fail)("badly")
        assert parsl.python_app(monitored_tasks.double)(failed).exception() is not None
    assert query(tmp_path, STATES.format(0))[-1] == "failed"
    assert query(tmp_path, STATES.format(1))[-1] == "dep_fail"
    own, propagated = query(tmp_path, "SELECT task_fail_history FROM try ORDER BY task_id")
    assert own == "ValueError('badly')"
    assert propagated.startswith("DependencyError('Dependency failure for task 1")
    assert query(tmp_path, "SELECT task_fail_count FROM task ORDER BY task_id") == [1, 1]
    assert query(tmp_path, "SELECT tasks_failed_count FROM workflow") == [1]


def test_a_plain_call_that_waits_is_cancelled(tmp_path: Path, gate: Gate) -> None:
    with run(tmp_path):
        blocker = parsl.python_app(enter)(gate.path)
        gate.wait_entered()
        waiting = parsl.python_app(monitored_tasks.double)(blocker)
        assert waiting.cancel()
        with pytest.raises(CancelledError):
            waiting.result()
        gate.open()
    assert query(tmp_path, STATES.format(1)) == ["pending", "failed"]


def test_what_runs_at_the_moment_is_launched(tmp_path: Path, gate: Gate) -> None:
    with run(tmp_path):
        blocker = parsl.python_app(enter)(gate.path)
        gate.wait_entered()
        while "launched" not in query(tmp_path, STATES.format(0)):
            pass
        assert query(tmp_path, STATES.format(0)) == ["pending", "launched"]
        gate.open()
        blocker.result()


def test_all_calls_are_found_however_many_one_batch_looks_at(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(engine_calls, "_LOOKS_MIN", 3)
    with run(tmp_path):
        futures = deque(map(parsl.python_app(monitored_tasks.double), range(100)))
        assert sum(future.result() for future in futures) == 9900
    assert query(tmp_path, "SELECT count(*) FROM status WHERE task_status_name = 'exec_done'") == [
        100
    ]


@pytest.fixture
def is_slow(monkeypatch: pytest.MonkeyPatch) -> None:
    """Makes a run write nothing before its end, unless something asks for it."""
    monkeypatch.setattr(writing.Writer.__init__, "__defaults__", (10_000,))


@pytest.mark.usefixtures("is_slow")
def test_arguments_go_with_their_call_before_it_is_written(tmp_path: Path) -> None:
    with run(tmp_path):
        value = monitored_tasks.Value()
        reference = weakref.ref(value)
        parsl.python_app(monitored_tasks.ignore)(value).result()
        parsl.python_app(monitored_tasks.ignore)([value]).result()
        del value
        gc.collect()
        assert reference() is None
        assert query(tmp_path, "SELECT count(*) FROM task") == [0]
    assert query(tmp_path, "SELECT count(*) FROM task") == [2]


@pytest.mark.usefixtures("is_slow")
def test_results_that_were_fetched_are_written_and_released_beyond_their_bound(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(writing, "_HELD_SIZE_MAX", 1 << 20)
    with run(tmp_path) as kernel:
        value = parsl.python_app(monitored_tasks.make)().result()
        reference = weakref.ref(value)
        del value
        gc.collect()
        assert reference() is not None, "the call is not written, and may be asked for its end"
        assert len(parsl.python_app(bytes)(2 << 20).result()) == 2 << 20
        while reference() is not None:
            gc.collect()
        assert kernel.task_count == 2


@pytest.mark.usefixtures("is_slow")
def test_results_that_were_fetched_are_released_while_the_database_is_locked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(databases, "_BUSY_MS", 0)
    monkeypatch.setattr(writing, "_HELD_SIZE_MAX", 1 << 20)
    make, fail = parsl.python_app(monitored_tasks.make), parsl.python_app(monitored_tasks.fail)
    fetch = parsl.python_app(bytes)
    with run(tmp_path) as kernel:
        other = sqlite3.connect(tmp_path / "monitoring.db", isolation_level=None)
        other.execute("BEGIN IMMEDIATE")
        assert len(fetch(2 << 20).result()) == 2 << 20
        while "is tried again" not in caplog.text:
            pass
        reference = weakref.ref(make().result())
        assert fail("badly").exception() is not None
        assert len(fetch(2 << 20).result()) == 2 << 20
        while reference() is not None:
            gc.collect()
        other.execute("ROLLBACK")
        other.close()
        assert kernel.task_count == 4
    states = "SELECT task_status_name, max(rowid) FROM status GROUP BY task_id ORDER BY task_id"
    assert [name for name, _ in query(tmp_path, states)] == [
        "exec_done",
        "exec_done",
        "failed",
        "exec_done",
    ]
    history = "SELECT task_fail_history FROM try ORDER BY task_id"
    assert query(tmp_path, history) == ["", "", "ValueError('badly')", ""]


@pytest.mark.usefixtures("is_slow")
def test_who_finds_too_many_bytes_of_calls_waits_until_they_are_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(writing, "_HELD_SIZE_MAX", 10 * writing.EVENT_SIZE)
    waits = []

    def make_room(self: Any, queue: Any) -> bool:
        waits.append(len(queue.items))
        return make_room_of_writer(self, queue)

    make_room_of_writer = writing.Writer.make_room
    monkeypatch.setattr(writing.Writer, "make_room", make_room)
    with run(tmp_path):
        app = parsl.python_app(monitored_tasks.double)
        assert [app(number).result() for number in range(100)] == [2 * one for one in range(100)]
    assert waits
    assert max(waits) <= 3 * 11, "three items for each call"
    assert query(tmp_path, "SELECT count(*) FROM task") == [100]


class Ended:
    """The future of a call that has ended."""

    class _app:
        label = "engine"
        app = monitored_tasks.double

    def __init__(self, number: int) -> None:
        self.tid = number

    def _look(self) -> str:
        return "succeeded" if self.tid >= 0 else "waiting"

    def timings(self) -> Any:
        from gristmill import Timings

        return Timings()

    def _status(self) -> Any:
        return engine_calls.States.exec_done


def test_calls_that_have_ended_do_not_gather_behind_those_that_go_on(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(engine_calls, "_LOOKS_MIN", 1)
    calls = EngineCalls(lambda _: True)
    for number in range(100):
        calls.called(Ended(-1 - number), (), {})
    for _ in range(50):
        for number in range(100):
            calls.called(Ended(number), (), {})
        for _ in calls.batches(lambda: recorder.Batch("run", 0), 30):
            pass
        assert len(calls._unfinished) <= 300


def test_a_value_lives_no_longer_than_who_wants_it(tmp_path: Path) -> None:
    with run(tmp_path):
        value = weakref.ref(parsl.python_app(monitored_tasks.make)().result())
        while not query(tmp_path, "SELECT 1 FROM status WHERE task_status_name = 'exec_done'"):
            pass
        gc.collect()
        assert value() is None
