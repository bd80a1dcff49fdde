"""Remembered results take a bounded amount of memory, and hits beyond that bound are as correct as others."""

from __future__ import annotations

import gc
import logging
import threading
import tracemalloc
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy
import pytest
from memo_tasks import ask, call, fail, make_task, start, succeed

from gristmill import _native
from gristmill.parsl import python_app
from gristmill.parsl._kernel import memo_files, memoization
from gristmill.parsl._kernel.checkpoint import CheckpointWriter, KnownResults
from gristmill.parsl._kernel.memo_files import SpillFile, StoredFuture
from gristmill.parsl._kernel.memo_sizes import size_of
from gristmill.parsl.dataflow.memoization import BasicMemoizer, CheckpointCommand
from gristmill.parsl.errors import ConfigurationError
from interrupted import at_each_place

import calls

MEMORY = 1 << 20
SIZE = 50_000
COUNT = 200
#: The bound, and the other memory that a memoizer takes for this many calls; all results together take ten megabytes.
GROWTH_MAX = 3 << 20
MODES = [None, "task_exit", "dfk_exit", "manual"]

made: list[int] = []


def block(number: int) -> bytes:
    made.append(number)
    return number.to_bytes(4, "little") * (SIZE // 4)


def expected(number: int) -> bytes:
    return number.to_bytes(4, "little") * (SIZE // 4)


@pytest.fixture(autouse=True)
def _nothing_made() -> None:
    made.clear()


@pytest.fixture
def growth() -> Iterator[Callable[[], int]]:
    """Yields a function that returns how many bytes were allocated since the test began and not freed."""
    gc.collect()
    tracemalloc.start()
    before = tracemalloc.get_traced_memory()[0]

    def measure() -> int:
        gc.collect()
        return tracemalloc.get_traced_memory()[0] - before

    yield measure
    tracemalloc.stop()


@pytest.mark.parametrize("mode", MODES)
def test_results_beyond_the_bound_are_on_disk(
    tmp_path: Path, mode: Any, growth: Callable[[], int]
) -> None:
    memoizer = start(tmp_path, checkpoint_mode=mode, memory=MEMORY)
    for number in range(COUNT):
        call(memoizer, block, number)
    assert growth() < GROWTH_MAX
    for number in range(COUNT):
        assert call(memoizer, block, number) == expected(number)
    assert growth() < GROWTH_MAX
    assert made == [*range(COUNT)]
    for future in memoizer.memo_lookup_table.values():
        assert future.done()
        assert future.exception() is None
    assert sum(isinstance(one, StoredFuture) for one in memoizer.memo_lookup_table.values())


@pytest.mark.parametrize("mode", ["task_exit", "dfk_exit", "manual"])
@pytest.mark.parametrize(("size", "count"), [(SIZE, COUNT), (2_000, 900)])
def test_a_later_run_finds_all_of_them_and_keeps_to_its_bound(
    tmp_path: Path, mode: str, size: int, count: int, growth: Callable[[], int]
) -> None:
    found: list[int] = []

    def make(number: int) -> bytes:
        found.append(number)
        return expected(number)[:size]

    for run in range(3):
        memoizer = start(tmp_path, run, checkpoint_mode=mode, memory=MEMORY)
        for number in range(count):
            assert call(memoizer, make, number) == expected(number)[:size]
        assert growth() < GROWTH_MAX + count * 1_500
        memoizer.close()
        assert memoizer.checkpointed_tasks == count
        del memoizer
    assert found == [*range(count)]


def test_results_in_parsls_own_checkpoints_stay_there(
    tmp_path: Path, growth: Callable[[], int]
) -> None:
    import pickle

    path = tmp_path / "tasks.pkl"
    with path.open("wb") as stream:
        for number in range(COUNT):
            entry = {"hash": str(number), "exception": None, "result": expected(number)}
            pickle.dump(entry, stream)
    known = KnownResults(MEMORY)
    known.load(path)
    assert growth() < GROWTH_MAX
    assert all(known.find_by_parsl_key(str(one)) == expected(one) for one in range(COUNT))


def test_what_was_used_last_is_in_memory(tmp_path: Path) -> None:
    memoizer = start(tmp_path, memory=MEMORY)
    first = call(memoizer, block, 0)
    for number in range(1, COUNT):
        call(memoizer, block, number)
        assert call(memoizer, block, 0) is first
    assert call(memoizer, block, COUNT - 1) is call(memoizer, block, COUNT - 1)


def test_a_result_that_is_read_again_is_in_memory_again(tmp_path: Path) -> None:
    memoizer = start(tmp_path, memory=MEMORY)
    for number in range(COUNT):
        call(memoizer, block, number)
    again = call(memoizer, block, 0)
    assert call(memoizer, block, 0) is again


def test_a_result_is_what_it_was_when_it_was_checkpointed(tmp_path: Path) -> None:
    memoizer = start(tmp_path, checkpoint_mode="task_exit", memory=MEMORY)
    results = [call(memoizer, lambda number: [number] * 10_000, one) for one in range(COUNT)]
    for result in results:
        result.clear()
    assert call(memoizer, lambda number: [number] * 10_000, 3) in ([], [3] * 10_000)


class Unpicklable:
    def __init__(self, number: int) -> None:
        self.lock = threading.Lock()
        self.data = block(number)


def test_what_cannot_be_pickled_is_forgotten_at_the_bound(
    tmp_path: Path, growth: Callable[[], int]
) -> None:
    memoizer = start(tmp_path, memory=MEMORY)
    for number in range(COUNT):
        call(memoizer, Unpicklable, number)
    assert growth() < GROWTH_MAX
    assert call(memoizer, Unpicklable, COUNT - 1).data == expected(COUNT - 1)
    assert len(made) == COUNT
    assert call(memoizer, Unpicklable, 0).data == expected(0)
    assert len(made) == COUNT + 1


def test_failures_are_forgotten_at_the_bound(tmp_path: Path, growth: Callable[[], int]) -> None:
    memoizer = start(tmp_path, memory=MEMORY)

    def run(number: int) -> str:
        task = make_task(block, number)
        known = ask(memoizer, task)
        if known is not None:
            return str(known.exception())
        fail(memoizer, task, ValueError(expected(number).hex()))
        return ""

    for number in range(COUNT):
        assert run(number) == ""
    assert growth() < GROWTH_MAX
    assert run(COUNT - 1) == expected(COUNT - 1).hex()
    assert run(0) == ""


def test_arguments_that_a_future_keeps_count(tmp_path: Path, growth: Callable[[], int]) -> None:
    memoizer = start(tmp_path, memory=MEMORY)
    for number in range(COUNT):
        task = make_task(len, expected(number))
        task["app_fu"].task_record = {"args": task["args"]}
        ask(memoizer, task)
        succeed(memoizer, task, SIZE)
        del task
    assert growth() < GROWTH_MAX
    assert call(memoizer, len, expected(0)) == SIZE


def test_results_that_a_lost_checkpoint_had_are_computed_again(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    memoizer = start(tmp_path, checkpoint_mode="task_exit")
    for number in range(3):
        call(memoizer, block, number)
    memoizer.close()
    path = tmp_path / "000" / "checkpoint" / "tasks.pkl"
    memoizer = start(tmp_path, 1, checkpoint_files=[path])
    path.write_bytes(path.read_bytes()[: SIZE * 2 + 1_000])
    with caplog.at_level(logging.WARNING):
        assert [call(memoizer, block, one) for one in range(3)] == [expected(n) for n in range(3)]
    assert made == [0, 1, 2, 2]
    assert "runs again" in caplog.text


def test_a_result_whose_place_was_written_over_is_computed_again(tmp_path: Path) -> None:
    memoizer = start(tmp_path, checkpoint_mode="task_exit", memory=MEMORY)
    for number in range(COUNT):
        call(memoizer, block, number)
    path = tmp_path / "000" / "checkpoint" / "tasks.pkl"
    path.write_bytes(bytes(path.stat().st_size))
    assert call(memoizer, block, 0) == expected(0)
    assert ask(memoizer, make_task(block, 0)) is not None
    assert made[-1] == 0


def test_calls_beyond_the_bound_of_entries_are_forgotten(tmp_path: Path) -> None:
    memoizer = start(tmp_path, memory=512 * 100)
    for number in range(1_000):
        call(memoizer, int, number)
        assert ask(memoizer, make_task(int, 0)) is not None
        assert len(memoizer.memo_lookup_table) <= 101
    assert ask(memoizer, make_task(int, 999)) is not None
    assert ask(memoizer, make_task(int, 1)) is None


def test_calls_that_run_are_not_forgotten(tmp_path: Path) -> None:
    memoizer = start(tmp_path, memory=512 * 10)
    tasks = [make_task(int, number) for number in range(100)]
    assert all(ask(memoizer, task) is None for task in tasks)
    call(memoizer, int, 100)
    assert all(ask(memoizer, make_task(int, one)) is tasks[one]["app_fu"] for one in range(100))


@pytest.fixture
def no_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GRISTMILL_SPILL_DIR", "")


@pytest.mark.usefixtures("no_disk")
def test_without_a_disk_results_are_forgotten(tmp_path: Path, growth: Callable[[], int]) -> None:
    memoizer = start(tmp_path, memory=MEMORY)
    for number in range(COUNT):
        call(memoizer, block, number)
    assert growth() < GROWTH_MAX
    assert call(memoizer, block, COUNT - 1) == expected(COUNT - 1)
    assert len(made) == COUNT
    assert call(memoizer, block, 0) == expected(0)
    assert len(made) == COUNT + 1


@pytest.mark.usefixtures("no_disk")
@pytest.mark.parametrize("mode", ["dfk_exit", "manual"])
def test_without_a_disk_the_checkpoint_is_written_early(
    tmp_path: Path, mode: str, growth: Callable[[], int]
) -> None:
    memoizer = start(tmp_path, checkpoint_mode=mode, memory=MEMORY)
    for number in range(COUNT):
        call(memoizer, block, number)
    assert growth() < GROWTH_MAX
    assert 0 < memoizer.checkpointed_tasks < COUNT
    assert all(call(memoizer, block, one) == expected(one) for one in range(COUNT))
    assert len(made) == COUNT
    memoizer.close()
    assert memoizer.checkpointed_tasks == COUNT


def test_commands_show_their_results_wherever_these_are(tmp_path: Path) -> None:
    seen: list[CheckpointCommand] = []

    class Own(BasicMemoizer):
        def checkpoint_queue(self) -> None:
            seen.extend(self.checkpointable_tasks)
            self.checkpointable_tasks = []

    memoizer = Own(checkpoint_mode="manual", memory=MEMORY)
    memoizer.start(run_dir=str(tmp_path), config_run_dir=str(tmp_path))
    for number in range(COUNT):
        call(memoizer, block, number)
    memoizer.close()
    assert [one.result for one in seen] == [expected(number) for number in range(COUNT)]
    assert all(one.task_record["hashsum"] and one.exception is None for one in seen)


def big(number: int) -> bytes:
    return number.to_bytes(4, "little") * 12_500


@pytest.mark.parametrize("mode", MODES)
def test_results_that_a_program_fetches_and_drops(
    make_kernel: Any, mode: Any, growth: Callable[[], int]
) -> None:
    memoizer = BasicMemoizer(checkpoint_mode=mode, memory=MEMORY)
    app = python_app(big, data_flow_kernel=make_kernel("engine", memoizer=memoizer), cache=True)
    futures = [app(number) for number in range(COUNT)]
    # No task is submitted meanwhile.
    for number in reversed(range(COUNT)):
        assert futures.pop().result() == big(number)
    # The thread that reports ends may be about to shrink as well.
    memoizer.shrink()
    assert growth() < GROWTH_MAX
    for number in range(COUNT):
        future = app(number)
        assert future.result() == big(number)
        assert future.task_status() == "memo_done"
    del future
    assert growth() < GROWTH_MAX


def test_arguments_of_calls_whose_results_stay_unfetched(
    make_kernel: Any, growth: Callable[[], int]
) -> None:
    kernel = make_kernel("engine", memoizer=BasicMemoizer(memory=MEMORY))
    app = python_app(len, data_flow_kernel=kernel, cache=True)
    for number in range(COUNT):
        app(big(number))
        if number % 20 == 0:
            kernel.wait_for_current_tasks()
    kernel.wait_for_current_tasks()
    app(big(COUNT))
    kernel.memoizer.engine_calls.settle()
    assert growth() < GROWTH_MAX
    assert app(big(0)).result() == len(big(0))


def test_failures_that_a_program_looks_at(make_kernel: Any) -> None:
    kernel = make_kernel("engine", memoizer=BasicMemoizer(memory=MEMORY))
    app = python_app(calls.fail, data_flow_kernel=kernel, cache=True)
    for number in range(COUNT):
        assert isinstance(app(big(number).hex()).exception(), ValueError)
    kernel.memoizer.engine_calls.settle()
    assert len(kernel.memoizer.memo_lookup_table) < COUNT
    assert isinstance(app(big(0).hex()).exception(), ValueError)


def test_calls_whose_results_take_no_memory_are_forgotten_with_their_entries(
    make_kernel: Any,
) -> None:
    kernel = make_kernel("engine", memoizer=BasicMemoizer(memory=512 * 100))
    app = python_app(calls.same, data_flow_kernel=kernel, cache=True)
    for number in range(2000):
        app(number)
        if number % 50 == 0:
            kernel.wait_for_current_tasks()
    kernel.wait_for_current_tasks()
    app(-1).result()
    assert len(kernel.memoizer.memo_lookup_table) <= 250
    assert len(kernel.memoizer.engine_calls._keys) <= 500


def test_results_that_end_together_are_pickled_a_few_at_a_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(memoization, "_BATCH_SIZE", 3 * SIZE)
    sizes = []

    def append_all(self: Any, entries: Any, wanted: Any) -> Any:
        sizes.append(sum(len(entry) for _, entry in entries))
        return append_all_of_writer(self, entries, wanted)

    append_all_of_writer = CheckpointWriter.append_all
    monkeypatch.setattr(CheckpointWriter, "append_all", append_all)
    memoizer = start(tmp_path, checkpoint_mode="task_exit")
    ends = [(End(f"key {number}", number), block(number)) for number in range(20)]
    memoizer.update_memo_results(ends)  # type: ignore[arg-type]
    memoizer.close()
    assert max(sizes) < 4 * SIZE
    assert sum(sizes) >= 20 * SIZE
    known = KnownResults()
    known.load(next(tmp_path.rglob("tasks.pkl")))
    assert [known.find(f"key {number}") for number in range(20)] == [
        expected(number) for number in range(20)
    ]


def test_calls_that_wait_for_a_checkpoint_are_bounded(tmp_path: Path) -> None:
    memoizer = start(tmp_path, checkpoint_mode="manual", memory=512 * 100)
    for number in range(1000):
        call(memoizer, calls.same, number)
        assert len(memoizer.checkpointable_tasks) <= 100
    assert memoizer.checkpointed_tasks >= 900
    memoizer.close()


def test_results_beyond_the_room_of_their_file_are_forgotten(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, growth: Callable[[], int]
) -> None:
    place = (tmp_path, 20 * (SIZE + 200))
    monkeypatch.setattr(_native, "spill_place", lambda: (place, None))
    memoizer = start(tmp_path, memory=MEMORY)
    for number in range(COUNT):
        call(memoizer, block, number)
    assert growth() < GROWTH_MAX
    on_disk = [one for one in memoizer.memo_lookup_table.values() if isinstance(one, StoredFuture)]
    assert 10 <= len(on_disk) <= 20
    assert call(memoizer, block, 0) == expected(0)


class End:
    """The future of a call that has ended."""

    def __init__(self, hashsum: str, tid: int) -> None:
        self.hashsum = hashsum
        self.tid = tid


def test_results_beyond_the_bound_of_entries_are_forgotten_while_a_file_is_loaded(
    tmp_path: Path,
) -> None:
    memoizer = start(tmp_path, checkpoint_mode="task_exit")
    for number in range(1000):
        call(memoizer, calls.same, number)
    memoizer.close()
    most = []

    class Known(KnownResults):
        def _bound_entries(self) -> None:
            most.append(len(self))
            super()._bound_entries()

    known = Known(entries_max=80)
    known.load(next(tmp_path.rglob("tasks.pkl")))
    assert len(known) == 80
    assert max(most) <= 91


@pytest.mark.parametrize("memory", [0, -1, "much", 1.5])
def test_a_size_that_is_none_is_refused(memory: Any) -> None:
    with pytest.raises(ConfigurationError, match="memory must be"):
        BasicMemoizer(memory=memory)


def test_sizes_count_what_values_hold() -> None:
    class Holder:
        def __init__(self, data: Any) -> None:
            self.data = data

    data, array = b"x" * 100_000, numpy.zeros(100_000, numpy.uint8)
    for value in (data, [data], {"a": (data,)}, {data}, Holder(data), [Holder([data])], array):
        assert 100_000 <= size_of(value) < 102_000
    assert 100_000 <= size_of([data, data, [data]]) < 302_000
    assert 100_000 <= size_of(ValueError(data)) < 102_000
    assert size_of(array[:1000]) < 102_000
    assert 1_000_000 < size_of(list(range(100_000))) < 5_000_000
    assert size_of(numpy.array([data[:one] for one in range(2_000)], object)) > 1_000_000
    cycle: list[Any] = [data]
    cycle.append(cycle)
    assert 100_000 <= size_of(cycle) < 102_000
    assert size_of(None) < 100
    assert size_of(Holder) < 100


def test_a_handler_of_a_signal_may_send_a_result_to_disk_while_another_one_goes_there() -> None:
    wanted = {"program": b"p" * 100, "handler": b"h" * 10}

    def append(given: tuple[SpillFile, dict[str, Any]], who: str) -> None:
        file, places = given
        places[who] = file.append(wanted[who])

    made: list[tuple[SpillFile, dict[str, Any]]] = []

    def make() -> tuple[SpillFile, dict[str, Any]]:
        made.append((SpillFile(), {}))
        # While a handler makes the file, the interrupted code finds no room for its result, and the other way round.
        made[-1][0].append(b"first")
        return made[-1]

    assert at_each_place(
        memo_files,
        make,
        lambda given: append(given, "program"),
        lambda given: append(given, "handler"),
    )
    for file, places in made:
        # On a machine without a disk a result has no location.
        there = {who: place for who, place in places.items() if place is not None}
        for who, place in there.items():
            assert file.read(place, len(wanted[who])) == wanted[who]
