"""A repeated call is not run again: in one run, and with equal calls at the same time."""

from __future__ import annotations

import logging
import threading
from concurrent.futures import CancelledError
from pathlib import Path
from typing import Any

import pytest
from memo_tasks import ask, call, fail, make_task, start, succeed

from gristmill.parsl.dataflow.memoization import BasicMemoizer, CheckpointCommand, Memoizer
from gristmill.parsl.errors import ConfigurationError

calls: list[Any] = []


def record(value: Any = None, **named: Any) -> int:
    calls.append((value, named))
    return len(calls)


@pytest.fixture(autouse=True)
def _no_calls() -> None:
    calls.clear()


def test_the_same_call_is_made_once(tmp_path: Path) -> None:
    memoizer = start(tmp_path)
    assert [call(memoizer, record, value) for value in (1, 2, 1, 1.0, 1)] == [1, 2, 1, 3, 1]
    assert len(calls) == 3


def test_a_task_gets_the_key_of_its_call(tmp_path: Path) -> None:
    memoizer = start(tmp_path)
    one, same, other = make_task(record, 1), make_task(record, 1), make_task(record, 2)
    for task in (one, same, other):
        ask(memoizer, task)
    assert one["hashsum"] == same["hashsum"] != other["hashsum"]


def test_apps_without_cache_are_called_each_time(tmp_path: Path) -> None:
    memoizer = start(tmp_path)
    for _ in range(2):
        task = make_task(record, 1)
        task["memoize"] = False
        assert ask(memoizer, task) is None
        assert task["hashsum"] is None
        succeed(memoizer, task, 1)
    off = start(tmp_path, memoize=False)
    assert [call(off, record, 1) for _ in range(2)] == [1, 2]


def test_a_failure_is_remembered_and_not_repeated(tmp_path: Path) -> None:
    memoizer = start(tmp_path)
    first, error = make_task(record, 1), ValueError("no")
    assert ask(memoizer, first) is None
    fail(memoizer, first, error)
    known = ask(memoizer, make_task(record, 1))
    assert known is not None
    assert known.exception() is error


def test_the_same_call_that_runs_is_waited_for(tmp_path: Path) -> None:
    memoizer = start(tmp_path)
    first, second = make_task(record, 1), make_task(record, 1)
    assert ask(memoizer, first) is None
    known = ask(memoizer, second)
    assert known is first["app_fu"]
    assert not known.done()
    succeed(memoizer, first, 17)
    succeed(memoizer, second, known.result())
    assert second["app_fu"].result() == 17


def test_of_many_threads_that_ask_at_once_one_runs_the_call(tmp_path: Path) -> None:
    memoizer = start(tmp_path)
    tasks = [make_task(record, 1) for _ in range(8)]
    barrier = threading.Barrier(len(tasks))

    def run(task: Any) -> None:
        barrier.wait()
        ask(memoizer, task)

    threads = [threading.Thread(target=run, args=(task,)) for task in tasks]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [task["from_memo"] for task in tasks].count(False) == 1


def test_both_run_if_running_calls_are_not_shared(tmp_path: Path) -> None:
    memoizer = start(tmp_path, share_running=False)
    first, second = make_task(record, 1), make_task(record, 1)
    assert ask(memoizer, first) is None
    assert ask(memoizer, second) is None
    succeed(memoizer, first, 17)
    assert ask(memoizer, make_task(record, 1)) is first["app_fu"]


def test_a_further_attempt_does_not_wait_for_its_own_task(tmp_path: Path) -> None:
    memoizer = start(tmp_path)
    task = make_task(record, 1)
    for _attempt in range(3):
        assert ask(memoizer, task) is None
    succeed(memoizer, task, 17)


def test_a_call_that_shared_a_cancelled_one_runs_itself(tmp_path: Path) -> None:
    memoizer = start(tmp_path)
    first, second, third = (make_task(record, 1) for _ in range(3))
    assert ask(memoizer, first) is None
    assert ask(memoizer, second) is first["app_fu"]
    first["app_fu"].cancel()
    assert ask(memoizer, second) is None
    memoizer.update_memo_exception(first, CancelledError())
    assert ask(memoizer, third) is second["app_fu"]
    memoizer.update_memo_exception(second, CancelledError())
    assert ask(memoizer, third) is None


def test_ignored_arguments_do_not_matter(tmp_path: Path) -> None:
    memoizer = start(tmp_path)
    for verbose, from_memo in ((True, False), (False, True)):
        task = make_task(record, 1, verbose=verbose)
        task["ignore_for_cache"] = ["verbose", "stdout"]
        ask(memoizer, task)
        assert task["from_memo"] is from_memo
        succeed(memoizer, task, 1)


class NotSeven(BasicMemoizer):
    def check_memo(self, task: Any) -> Any:
        return None if task["args"] == (7,) else super().check_memo(task)


def test_a_memoizer_of_the_program_may_decline(tmp_path: Path) -> None:
    memoizer = NotSeven()
    memoizer.start(run_dir=str(tmp_path), config_run_dir=str(tmp_path))
    assert isinstance(memoizer, Memoizer)
    assert [call(memoizer, record, value) for value in (7, 7, 1, 1)] == [1, 2, 3, 3]


class Observing(BasicMemoizer):
    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self.seen: list[CheckpointCommand] = []

    def checkpoint_one(self, cc: CheckpointCommand) -> None:
        self.seen.append(cc)

    def checkpoint_queue(self) -> None:
        self.seen += self.checkpointable_tasks
        self.checkpointable_tasks = []


@pytest.mark.parametrize("mode", ["task_exit", "dfk_exit"])
def test_a_memoizer_of_the_program_may_write_checkpoints_itself(tmp_path: Path, mode: Any) -> None:
    memoizer = Observing(checkpoint_mode=mode)
    memoizer.start(run_dir=str(tmp_path), config_run_dir=str(tmp_path))
    call(memoizer, record, 1)
    failed, error = make_task(record, 2), ValueError("no")
    ask(memoizer, failed)
    fail(memoizer, failed, error)
    memoizer.close()
    assert [(one.result, one.exception) for one in memoizer.seen] == [(1, None), (None, error)]
    assert memoizer.seen[1].task_record is failed
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"checkpoint_mode": "sometimes"}, "checkpoint_mode is one of"),
        ({"checkpoint_mode": "periodic"}, "needs a checkpoint_period"),
        ({"checkpoint_mode": "periodic", "checkpoint_period": "soon"}, "HH:MM:SS"),
        ({"checkpoint_mode": "periodic", "checkpoint_period": "00:00:-1"}, "HH:MM:SS"),
        ({"checkpoint_mode": "periodic", "checkpoint_period": "00:00:00"}, "longer than nothing"),
        ({"checkpoint_files": "runinfo/000/checkpoint"}, "list of paths"),
    ],
)
def test_what_there_is_not_is_refused_when_the_memoizer_is_made(options: Any, message: str) -> None:
    with pytest.raises(ConfigurationError, match=message):
        BasicMemoizer(**options)


def test_a_result_that_cannot_be_pickled_is_remembered_but_not_written(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    memoizer = start(tmp_path, checkpoint_mode="task_exit")
    with caplog.at_level(logging.WARNING):
        lock = call(memoizer, threading.Lock)
    assert call(memoizer, threading.Lock) is lock
    assert "cannot be pickled" in caplog.text
    assert memoizer.checkpointed_tasks == 0
    memoizer.close()


def test_a_checkpoint_that_cannot_be_written_fails_no_task_and_is_reported_once(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    memoizer = start(tmp_path, checkpoint_mode="task_exit")
    (tmp_path / "000" / "checkpoint").write_text("in the way")
    assert [call(memoizer, record, value) for value in (1, 2, 3)] == [1, 2, 3]
    assert caplog.text.count("lost to later runs") == 1


def test_what_could_not_be_written_by_hand_is_reported_and_kept(tmp_path: Path) -> None:
    memoizer = start(tmp_path, checkpoint_mode="manual")
    call(memoizer, record, 1)
    obstacle = tmp_path / "000" / "checkpoint"
    obstacle.write_text("in the way")
    with pytest.raises(OSError, match="checkpoint"):
        memoizer.checkpoint()
    obstacle.unlink()
    memoizer.checkpoint()
    assert memoizer.checkpointed_tasks == 1
    memoizer.close()
