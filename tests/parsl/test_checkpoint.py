"""Results of one run are found by the next one."""

from __future__ import annotations

import itertools
import logging
import os
import pickle
import threading
from pathlib import Path
from typing import Any

import pytest
from memo_tasks import ask, call, fail, make_task, start

from gristmill._native import Journal
from gristmill.parsl._kernel import checkpoint, memoization
from gristmill.parsl.dataflow.errors import BadCheckpoint
from gristmill.parsl.dataflow.memoization import BasicMemoizer
from gristmill.parsl.utils import get_all_checkpoints, get_last_checkpoint
from interrupted import at_each_place

calls: list[Any] = []


def record(value: Any = None) -> Any:
    calls.append(value)
    return [value, len(calls)]


@pytest.fixture(autouse=True)
def _no_calls() -> None:
    calls.clear()


def run(folder: Path, number: int, values: Any, **options: Any) -> list[Any]:
    """Performs a run that calls the function with each of these values."""
    memoizer = start(folder, number, **options)
    results = [call(memoizer, record, value) for value in values]
    memoizer.close()
    return results


def file_of(folder: Path, number: int = 0) -> Path:
    return folder / f"{number:03}" / "checkpoint" / "tasks.pkl"


@pytest.mark.parametrize("mode", ["task_exit", "dfk_exit", "manual"])
@pytest.mark.parametrize("durable", [False, True])
def test_a_later_run_finds_what_an_earlier_one_computed(
    tmp_path: Path, mode: str, durable: bool
) -> None:
    options = {"checkpoint_mode": mode, "durable": durable}
    first = run(tmp_path, 0, range(5), **options)
    assert run(tmp_path, 1, range(6), **options)[:5] == first
    assert calls == [*range(5), 5]


def test_results_are_on_disk_when_their_mode_says(tmp_path: Path) -> None:
    for number, (mode, at_once) in enumerate(
        [("task_exit", True), ("dfk_exit", False), ("manual", False)]
    ):
        memoizer = start(tmp_path, number, checkpoint_mode=mode, checkpoint_files=[])
        call(memoizer, record, 1)
        assert file_of(tmp_path, number).exists() is at_once
        memoizer.checkpoint()
        assert len(list(Journal.read(file_of(tmp_path, number)))) == 1
        memoizer.close()


def test_periodic_checkpoints_are_written_without_being_asked_for(tmp_path: Path) -> None:
    written = threading.Event()

    class Observed(BasicMemoizer):
        def checkpoint_queue(self) -> None:
            super().checkpoint_queue()
            if self.checkpointed_tasks:
                written.set()

    memoizer = Observed(checkpoint_mode="periodic", checkpoint_period="00:00:01")
    (tmp_path / "000").mkdir()
    memoizer.start(run_dir=str(tmp_path / "000"), config_run_dir=str(tmp_path))
    call(memoizer, record, 1)
    assert written.wait(100)
    assert len(list(Journal.read(file_of(tmp_path)))) == 1
    memoizer.close()
    assert not any(thread.name == "Checkpoint" for thread in threading.enumerate())


def test_a_run_without_results_leaves_an_empty_checkpoint(tmp_path: Path) -> None:
    start(tmp_path, checkpoint_mode="dfk_exit").close()
    assert list(Journal.read(file_of(tmp_path))) == []
    run(tmp_path, 1, [1], checkpoint_files=[file_of(tmp_path)])


def test_failures_are_not_written(tmp_path: Path) -> None:
    memoizer = start(tmp_path, checkpoint_mode="task_exit")
    task = make_task(record, 1)
    ask(memoizer, task)
    fail(memoizer, task, ValueError("no"))
    memoizer.close()
    assert ask(start(tmp_path, 1, checkpoint_mode="task_exit"), make_task(record, 1)) is None


def test_a_result_that_was_found_is_in_the_checkpoint_of_its_run_too(tmp_path: Path) -> None:
    first = run(tmp_path, 0, [1, 1], checkpoint_mode="task_exit", checkpoint_files=[])
    for number in (1, 2, 3):
        files = get_last_checkpoint(str(tmp_path))
        assert files == [str(file_of(tmp_path, number - 1).parent)]
        again = run(tmp_path, number, [1, 1], checkpoint_mode="task_exit", checkpoint_files=files)
        assert again == first
        assert len(list(Journal.read(file_of(tmp_path, number)))) == 1
    assert calls == [1]


def test_nothing_is_loaded_or_written_unless_asked_for(tmp_path: Path) -> None:
    run(tmp_path, 0, [1], checkpoint_mode="task_exit")
    run(tmp_path, 1, [1])
    run(tmp_path, 2, [1], checkpoint_mode="task_exit", checkpoint_files=[])
    assert calls == [1, 1, 1]
    assert not file_of(tmp_path, 1).exists()
    run(tmp_path, 3, [1], checkpoint_files=[file_of(tmp_path)])
    run(tmp_path, 4, [1], checkpoint_files=[str(file_of(tmp_path).parent)])
    assert calls == [1, 1, 1]


def test_the_checkpoints_of_runs_are_found(tmp_path: Path) -> None:
    for name in ("000", "998", "1000", "notes"):
        (tmp_path / name / "checkpoint").mkdir(parents=True)
    (tmp_path / "2000").write_text("no run")
    (tmp_path / "monitoring.db").write_text("no run")
    folder = str(tmp_path)
    found = [os.path.relpath(path, folder) for path in get_all_checkpoints(folder)]
    assert found == [f"{name}/checkpoint" for name in ("000", "1000", "998", "notes")]
    assert get_last_checkpoint(folder) == [str(tmp_path / "1000" / "checkpoint")]
    assert (
        get_all_checkpoints(str(tmp_path / "none"))
        == get_last_checkpoint(str(tmp_path / "none"))
        == []
    )


def test_a_run_that_died_before_its_first_result_is_no_obstacle(tmp_path: Path) -> None:
    (tmp_path / "000" / "checkpoint").mkdir(parents=True)
    assert run(tmp_path, 1, [1], checkpoint_mode="task_exit") == [[1, 1]]


@pytest.mark.parametrize(
    "content", [None, b"a diary", pickle.dumps([1]), b"\x80\x04C\x0bgristmill\0\x090"]
)
def test_what_is_no_checkpoint_is_refused(tmp_path: Path, content: bytes | None) -> None:
    path = tmp_path / "tasks.pkl"
    if content is not None:
        path.write_bytes(content)
    for wanted in (path, tmp_path):
        with pytest.raises(BadCheckpoint, match=r"tasks\.pkl"):
            start(tmp_path, checkpoint_files=[wanted])


def test_a_checkpoint_that_is_cut_anywhere_loses_only_what_is_torn(tmp_path: Path) -> None:
    results = run(tmp_path, 0, range(3), checkpoint_mode="task_exit")
    file = file_of(tmp_path)
    whole = file.read_bytes()
    found = []
    for size in range(len(whole) + 1):
        file.write_bytes(whole[:size])
        memoizer = start(tmp_path, checkpoint_files=[file])
        known = [ask(memoizer, make_task(record, value)) for value in range(3)]
        count = sum(one is not None for one in known)
        assert [one.result() for one in known[:count] if one] == results[:count]
        found.append(count)
    assert found == sorted(found)
    assert (found[0], found[-1]) == (0, 3)


def test_a_checkpoint_is_a_stream_of_pickles_as_parsl_writes_them(tmp_path: Path) -> None:
    results = run(tmp_path, 0, range(3), checkpoint_mode="task_exit")
    with file_of(tmp_path).open("rb") as stream:
        entries = [pickle.load(stream) for _ in results]
        with pytest.raises(EOFError):
            pickle.load(stream)
    assert [entry["result"] for entry in entries] == results
    assert all(entry["exception"] is None for entry in entries)
    assert [entry["hash"].encode() for entry in entries] == [
        key for key, _ in Journal.read(file_of(tmp_path))
    ]


def test_parsl_reads_our_checkpoints(tmp_path: Path) -> None:
    theirs = pytest.importorskip("parsl.dataflow.memoization")
    results = run(tmp_path, 0, range(3), checkpoint_mode="task_exit")
    table = theirs.BasicMemoizer().load_checkpoints([str(file_of(tmp_path).parent)])
    assert [future.result() for future in table.values()] == results


def parsl_file(folder: Path, count: int) -> tuple[Path, list[int]]:
    """Writes a checkpoint as Parsl does; returns it and the offsets of its entries' ends."""
    theirs = pytest.importorskip("parsl.dataflow.memoization")
    path, ends = folder / "tasks.pkl", []
    with path.open("wb") as stream:
        for value in range(count):
            key = theirs.make_hash(make_task(record, value))
            pickle.dump({"hash": key, "exception": None, "result": f"theirs {value}"}, stream)
            ends.append(stream.tell())
    return path, ends


def test_results_in_parsls_own_checkpoints_are_found(tmp_path: Path) -> None:
    path, _ = parsl_file(tmp_path, 3)
    assert run(tmp_path, 0, range(4), checkpoint_files=[path], checkpoint_mode="task_exit") == [
        "theirs 0", "theirs 1", "theirs 2", [3, 1],
    ]  # fmt: skip
    assert run(tmp_path, 1, range(4), checkpoint_mode="task_exit")[:3] == [
        "theirs 0",
        "theirs 1",
        "theirs 2",
    ]


def test_of_parsls_own_checkpoint_with_a_torn_end_the_rest_is_found(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path, ends = parsl_file(tmp_path, 3)
    whole = path.read_bytes()
    for size in range(ends[0], len(whole)):
        path.write_bytes(whole[:size])
        memoizer = start(tmp_path, checkpoint_files=[path])
        known = [ask(memoizer, make_task(record, value)) for value in range(3)]
        assert [one is not None for one in known] == [size >= end for end in ends]
    assert "torn or damaged" in caplog.text


class Vanishing:
    pass


def test_a_result_whose_class_is_gone_is_computed_again(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    run(tmp_path, 0, [Vanishing, 1], checkpoint_mode="task_exit")
    path, _ = parsl_file(tmp_path, 1)
    with path.open("ab") as stream:
        pickle.dump({"hash": "0", "exception": None, "result": Vanishing()}, stream)
        pickle.dump({"hash": "1", "exception": None, "result": 1}, stream)
    memoizer = start(tmp_path, checkpoint_files=[file_of(tmp_path), path])
    key = make_task(record, Vanishing)
    monkeypatch.delattr(f"{__name__}.Vanishing")
    with caplog.at_level(logging.WARNING):
        assert ask(memoizer, key) is None
        assert ask(memoizer, make_task(record, 1)) is not None
        start(tmp_path, checkpoint_files=[path])
    assert caplog.text.count("cannot be unpickled") == 2
    assert "torn" not in caplog.text


def test_results_that_only_cloudpickle_can_write_are_found(tmp_path: Path) -> None:
    def make(number: int) -> Any:
        return lambda: number + 1

    for number in (0, 1):
        memoizer = start(tmp_path, number, checkpoint_mode="task_exit")
        assert call(memoizer, make, 5)() == 6
        memoizer.close()


def test_results_that_a_handler_of_a_signal_remembers_during_a_checkpoint_are_in_the_next(
    tmp_path: Path,
) -> None:
    numbers = itertools.count()
    memoizers: list[BasicMemoizer] = []

    def begin() -> BasicMemoizer:
        options: Any = {"checkpoint_mode": "manual", "checkpoint_files": []}
        memoizers.append(start(tmp_path, next(numbers), **options))
        memoizers[-1].checkpoint()
        call(memoizers[-1], record, "program")
        return memoizers[-1]

    count = at_each_place(
        memoization,
        begin,
        BasicMemoizer.checkpoint,
        lambda memoizer: call(memoizer, record, "handler"),
    )
    for memoizer in memoizers:
        memoizer.close()
    written = [len([*Journal.read(str(file_of(tmp_path, one)))]) for one in range(next(numbers))]
    assert written == [2] * count + [1]


def test_places_in_a_checkpoint_are_right_wherever_a_handler_of_a_signal_writes_to_it(
    tmp_path: Path,
) -> None:
    numbers = itertools.count()
    found: list[checkpoint.StoredFuture] = []
    entries = {key: checkpoint.pickle_entry(key, key) for key in ("first", "second", "handler")}

    def begin() -> checkpoint.CheckpointWriter:
        writer = checkpoint.CheckpointWriter(str(tmp_path / str(next(numbers))), False)
        write(writer, "first")
        return writer

    def write(writer: checkpoint.CheckpointWriter, *keys: str) -> None:
        found.extend(writer.append_all([(key, entries[key]) for key in keys], lambda _: True))

    assert at_each_place(
        checkpoint,
        begin,
        lambda writer: write(writer, "first", "second"),
        lambda writer: write(writer, "handler"),
    )
    assert [one.load() for one in found] == [one.key for one in found]
