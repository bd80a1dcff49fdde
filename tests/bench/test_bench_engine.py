"""Tasks of an application on any executor: futures as arguments, values that travel by name, and the notes."""

from __future__ import annotations

import json
import os
import threading
from concurrent.futures import Future
from pathlib import Path
from typing import Any
from unittest.mock import MagicMock

import pytest

from gristmill import instruments
from gristmill_bench import Engine, RunFailed, resolve, run_names, start
from gristmill_bench.call import value_of
from gristmill_bench.executors.here import Inline, Threads
from gristmill_bench.executors.ours import Gristmill
from gristmill_bench.executors.parsls import GristmillParsl
from gristmill_bench.executors.pools import Pool, Processes
from gristmill_bench.filters import ObjectSize
from gristmill_bench.records.documents import Perfetto, WfFormat
from gristmill_bench.records.lines import JsonLines
from gristmill_bench.transformers.files import FileName, PickledFiles
from gristmill_bench.transformers.memory import SharedMemory

EXECUTORS = {
    "inline": Inline(),
    "threads": Threads(),
    "processes": Processes(start="fork"),
    "pool": Pool(start="fork"),
    "gristmill": Gristmill(),
    "nodes": Gristmill(nodes=2),
    "lease": Gristmill(lease=True),
    "batches": Gristmill(batches=3),
    "gristmill-parsl": GristmillParsl(),
}


def add(left: int, right: int = 0) -> int:
    return left + right


def fail(number: int) -> int:
    raise ValueError(f"no {number}")


def repeat(text: str, count: int) -> str:
    return text * count


def spoil(array: Any, others: Any) -> Any:
    """Returns copies of its arguments, and then overwrites one argument."""
    copy = array.copy(), {"a": others["a"].copy(), "b": [others["b"][0].copy()]}
    array[:] = -1
    return copy


def total(given: Any) -> float:
    array, others = given
    return float(array.sum() + others["a"].sum() + others["b"][0].sum())


def kind_of(value: object) -> str:
    return type(value).__name__


@pytest.fixture(params=EXECUTORS, scope="module")
def backend(request: pytest.FixtureRequest) -> Any:
    opened = EXECUTORS[request.param].open()
    yield opened
    opened.shutdown()


def test_futures_stand_for_what_they_return(backend: Any) -> None:
    engine = Engine(backend)
    one = engine.submit(add, 1)
    three = engine.submit(add, one, right=engine.submit(add, one, 1))
    assert three.result(30) == 3
    assert (three.number, three.parents, engine.submitted) == (2, (0, 1), 3)


def test_what_raises_raises_and_its_children_do_not_run(backend: Any) -> None:
    engine = Engine(backend)
    failed = engine.submit(fail, 7)
    child = engine.submit(add, failed)
    with pytest.raises(ValueError, match="no 7"):
        failed.result(30)
    assert child.exception(30) is not None


def test_a_stream_gives_each_task_once_those_too_that_come_later(backend: Any) -> None:
    engine = Engine(backend)
    stream = engine.stream(engine.submit(add, number) for number in range(5))
    found = []
    for task in stream:
        found.append(task.result())
        if len(found) == 3:
            stream.add(engine.submit(add, 100))
    assert sorted(found) == [0, 1, 2, 3, 4, 100]


def test_large_objects_travel_by_name_and_small_ones_do_not(backend: Any, tmp_path: Path) -> None:
    transformer = PickledFiles().open(tmp_path)
    engine = Engine(backend, filter=ObjectSize(least=1_000), transformer=transformer)
    long = engine.submit(repeat, "ab", 1_000)
    assert type(value_of(long.future.result(30))) is FileName
    assert long.result(30) == "ab" * 1_000
    assert engine.submit(kind_of, long).result(30) == "str", "it arrives as what it is"
    assert engine.submit(repeat, "ab" * 1_000, 1).result(30) == "ab" * 1_000
    assert type(value_of(engine.submit(repeat, "ab", 2).future.result(30))) is str
    transformer.close()
    assert not any(tmp_path.iterdir()), "nothing is left"


def test_arrays_in_shared_memory_arrive_whole_and_are_everyones_own(
    backend: Any, tmp_path: Path
) -> None:
    np = pytest.importorskip("numpy")
    transformer = SharedMemory().open(tmp_path)
    engine = Engine(backend, transformer=transformer)
    whole = {"a": np.arange(1_000.0), "b": [np.ones((3, 5), dtype="i1"), b"x" * 100]}
    sent = engine.submit(spoil, np.arange(10_000.0), whole)
    assert engine.submit(total, sent).result(30) == sum(range(10_000)) + sum(range(1_000)) + 15
    name = value_of(sent.future.result(30))
    array = sent.result(30)[0]
    array[:] = 0
    assert engine.submit(total, sent).result(30) == sum(range(10_000)) + sum(range(1_000)) + 15
    transformer.close()
    assert not list(Path("/dev/shm").glob(f"{name.path.split('/')[3]}*"))


def test_records_have_the_steps_of_each_task_in_order(backend: Any, tmp_path: Path) -> None:
    records = JsonLines().open(tmp_path)
    engine = Engine(backend, records=records)
    first = engine.submit(add, 1)
    second = engine.submit(add, first)
    failed = engine.submit(fail, 7)
    assert second.result(30) == 1
    assert failed.exception(30) is not None
    backend.shutdown()
    records.close()
    lines = [json.loads(line) for line in (tmp_path / "tasks.jsonl").read_text().splitlines()]
    notes = {line["task_id"]: line for line in lines}
    assert sorted(notes) == ["0", "1", "2"]
    assert (notes["1"]["name"], notes["1"]["parent_task_ids"]) == ("add", ["0"])
    assert notes["2"]["exception"]["type"] == "ValueError"
    assert not notes["2"]["success"]
    steps = notes["1"]["execution"]
    times = [
        notes["1"]["submit_time"],
        steps["execution_start_time"],
        steps["task_start_time"],
        steps["task_end_time"],
        steps["execution_end_time"],
    ]
    assert notes["1"]["success"]
    assert times == sorted(times)


class Garbled(OSError):
    """An error whose text is unusable."""

    def __str__(self) -> str:
        raise LookupError


def name_a_file_of_odd_bytes() -> None:
    raise ValueError("no such file: " + os.fsdecode(b"/nowhere/\xff"))


def raise_garbled() -> None:
    raise Garbled


def test_errors_whose_text_is_no_text_are_recorded_with_all_others(tmp_path: Path) -> None:
    records = [kind().open(tmp_path) for kind in (JsonLines, WfFormat, Perfetto)]
    for one in records:
        engine = Engine(Inline().open(), records=one)
        for function in (int, name_a_file_of_odd_bytes, raise_garbled):
            engine.submit(function)
        one.close()
    lines = [json.loads(line) for line in (tmp_path / "tasks.jsonl").read_text().splitlines()]
    assert [line["success"] for line in lines] == [True, False, False]
    assert "/nowhere/\\udcff" in lines[1]["exception"]["message"]
    assert "LookupError" in lines[2]["exception"]["message"]
    assert "/nowhere/" in (tmp_path / "trace.json").read_text()


class Forgetful:
    """An executor that does not return the results of its tasks."""

    def submit(self, function: Any, /, *args: Any, **kwargs: Any) -> Any:
        function(*args, **kwargs)
        future: Future[None] = Future()
        future.set_result(None)
        return future

    def shutdown(self) -> None:
        pass


def test_what_is_no_answer_is_recorded_as_a_failure(tmp_path: Path) -> None:
    records = JsonLines().open(tmp_path)
    engine = Engine(Forgetful(), records=records)
    engine.submit(add, 1)
    engine.finish()
    records.close()
    (line,) = [json.loads(line) for line in (tmp_path / "tasks.jsonl").read_text().splitlines()]
    assert line["exception"]["message"] == "the executor gave NoneType instead of an answer"


def test_what_an_executor_tells_late_is_waited_for(tmp_path: Path) -> None:
    inner, told = Inline().open(), threading.Event()

    class Late:
        """An executor that calls the callbacks of its futures only when the test says so."""

        def submit(self, function: Any, /, *args: Any, **kwargs: Any) -> Any:
            future = inner.submit(function, *args, **kwargs)
            late = MagicMock(wraps=future)
            late.add_done_callback = lambda callback: threading.Thread(
                target=lambda: (told.wait(), callback(future))
            ).start()
            return late

        def shutdown(self) -> None: ...

    records = JsonLines().open(tmp_path)
    engine = Engine(Late(), records=records)
    assert engine.submit(add, 1).result() == 1
    engine.finish(seconds=0)
    told.set()
    engine.finish()
    records.close()
    assert len((tmp_path / "tasks.jsonl").read_text().splitlines()) == 1


def test_nothing_is_around_a_function_that_is_neither_noted_nor_transformed() -> None:
    sent: list[Any] = []

    class Spy:
        def submit(self, function: Any, /, *args: Any, **kwargs: Any) -> Any:
            sent.append(function)
            return Inline().open().submit(function, *args, **kwargs)

        def shutdown(self) -> None: ...

    assert Engine(Spy()).submit(add, 1).result() == 1
    assert sent == [add]


def test_shared_memory_of_a_run_is_in_the_folder_that_goes_with_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GRISTMILL_MEMORY_FOLDER", str(tmp_path))
    transformer = SharedMemory().open(tmp_path / "run")
    name = transformer.transform(b"an object")
    assert Path(name.path).is_relative_to(tmp_path)
    assert transformer.resolve(name) == b"an object"
    transformer.close()
    assert not any(tmp_path.iterdir())


def test_files_of_a_run_that_was_killed_are_removed_and_no_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plugin = PickledFiles(folder=tmp_path / "files")
    left = []

    def run_until_killed(words: list[str], environment: dict[str, str]) -> int:
        for name in (environment[run_names.VARIABLE], "of another one"):
            monkeypatch.setenv(run_names.VARIABLE, name)
            left.append(Path(plugin.open(tmp_path).transform("an object").path))
        return 137

    monkeypatch.setattr(instruments, "run_below", run_until_killed)
    monkeypatch.setattr(instruments, "last_line", lambda log: "killed")
    tables: dict[str, Any] = {
        "app": {"name": "fib"},
        "executor": {"name": "inline"},
        "transformer": {"name": "pickled-files", "folder": str(tmp_path / "files")},
        "run": {"folder": str(tmp_path)},
    }
    with pytest.raises(RunFailed, match="killed"):
        start(resolve(tables))
    assert [one.exists() for one in left] == [False, True]
