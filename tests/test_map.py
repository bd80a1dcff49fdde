"""``map`` beside threads, signal handlers, destructors and its own items: no item is lost and no call fails."""

from __future__ import annotations

import functools
import itertools
import threading
import time
import weakref
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from gristmill import Executor, UnpicklableError

import calls
from stage import Gate, Script, lives

MakeExecutor = Callable[..., Executor]


@pytest.mark.parametrize(
    "arguments",
    [
        "iter([1, 2, 3]), buffersize=1",
        "(n for n in range(5)), buffersize=1",
        "(n for n in range(40_000))",
        "[[n] for n in range(40_000)]",
        "(lambda: n for n in range(40))",
    ],
)
def test_an_exception_that_is_raised_while_a_map_is_dropped_arrives(
    script: Script, arguments: str
) -> None:
    printed = script.run(
        f"""
        import gristmill, calls
        with gristmill.Executor(2) as executor:
            executor.submit(abs, -1).result()
            try:
                print(executor.map(calls.pid, {arguments}), 1 / 0)
            except ZeroDivisionError as error:
                print(error)
            try:
                raise KeyError(executor.map(calls.pid, {arguments}).close)
            except KeyError:
                print("kept")
        """
    )
    assert printed == "division by zero\nkept\n"


def test_a_dropped_map_reports_what_its_iterator_raises(script: Script) -> None:
    with script.start(
        """
        import gristmill, calls, threading
        def items():
            yield from range(20_000)
            yield threading.Lock()
            yield from range(3)
            raise KeyError("source")
        with gristmill.Executor(2) as executor:
            executor.map(calls.same, items())
            executor.shutdown()
            print(executor.stats().succeeded)
        """
    ) as process:
        printed, errors = process.communicate()
    assert printed == "20003\n"
    assert "UnpicklableError" in errors
    assert "KeyError: 'source'" in errors
    assert process.returncode == 0


def test_a_map_over_what_never_ends_can_be_dropped_before_it_is_begun(executor: Executor) -> None:
    executor.map(calls.same, itertools.count())
    executor.map(calls.add, itertools.repeat(1), itertools.cycle([1, 2]))
    executor.map(calls.add, itertools.repeat(1, 20_000), itertools.count())
    executor.shutdown()
    assert executor.stats().succeeded > 20_000


def test_the_end_of_the_executor_waits_for_a_map_that_another_thread_goes_through(
    make_executor: MakeExecutor, gate: Gate
) -> None:
    executor = make_executor(1)
    found: list[list[str]] = []
    items = ["", gate.path, *[""] * 3000]
    results = executor.map(calls.enter_if_path, items)
    thread = threading.Thread(target=lambda: found.append(list(results)))
    thread.start()
    gate.wait_entered()
    ending = threading.Thread(target=executor.shutdown)
    ending.start()
    gate.open()
    ending.join()
    thread.join()
    assert found == [items]


def test_a_handler_may_shut_the_executor_down_while_the_program_waits_for_a_map(
    script: Script,
) -> None:
    printed = script.run(
        """
        import os, signal, gristmill, calls
        executor = gristmill.Executor(2)
        def end(*_):
            executor.shutdown(wait=False)
            print("handled")
        signal.signal(signal.SIGUSR1, end)
        parent = os.getpid()
        def item(number):
            if number == 3:
                os.kill(parent, signal.SIGUSR1)
            return number
        print(list(executor.map(item, range(5000))) == list(range(5000)))
        """
    )
    assert printed == "handled\nTrue\n"


def test_a_map_may_be_closed_by_another_thread_and_by_a_handler(
    make_executor: MakeExecutor, gate: Gate
) -> None:
    executor = make_executor(1)
    results = executor.map(calls.enter, [gate.path] * 3)
    found: list[list[None]] = []
    thread = threading.Thread(target=lambda: found.append(list(results)))
    thread.start()
    gate.wait_entered()
    results.close()  # type: ignore[attr-defined]
    thread.join()
    assert found == [[]]
    assert list(results) == []


@pytest.mark.parametrize("ordered", [True, False])
@pytest.mark.parametrize("buffersize", [1, 7, None])
def test_threads_share_the_results_of_one_map(
    shared: Executor, ordered: bool, buffersize: int | None
) -> None:
    count = 2000
    for items in (range(count), ([item] for item in range(count))):
        results = shared.map(calls.same, items, ordered=ordered, buffersize=buffersize)
        found: list[Any] = []
        threads = [threading.Thread(target=lambda: found.extend(results)) for _ in range(4)]  # noqa: B023
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert Counter(map(str, found)) == Counter(map(str, shared.map(calls.same, found)))
        assert len(found) == count


def test_a_source_that_asks_its_own_map_is_told(shared: Executor) -> None:
    held: list[Iterator[int]] = []

    def items() -> Iterator[int]:
        yield 1
        # The first result is available; a second cannot arrive before this generator has yielded its item.
        yield next(held[0]) + next(held[0])

    held.append(shared.map(calls.same, items(), buffersize=1))
    with pytest.raises(ValueError, match="while it reads"):
        next(held[0])
    assert list(held[0]) == []


def test_a_source_that_uses_and_ends_the_executor(executor: Executor) -> None:
    def items() -> Iterator[int]:
        yield executor.submit(calls.same, 1).result()
        yield sum(executor.map(calls.same, [1, 1]))
        yield from range(3, 6)
        executor.shutdown(wait=False)
        yield 6

    results = executor.map(calls.same, items(), buffersize=2)
    assert [next(results) for _ in range(5)] == [1, 2, 3, 4, 5]
    with pytest.raises(RuntimeError, match="after shutdown"):
        next(results)
    assert list(results) == []


class Asks:
    """An item that asks its map for a result while it is pickled."""

    def __init__(self, held: list[Iterator[Any]]) -> None:
        self.held = held

    def __reduce__(self) -> Any:
        return str, (next(self.held[0]),)


def test_an_item_that_asks_its_map_while_it_is_pickled_gets_the_next_result(
    shared: Executor,
) -> None:
    held: list[Iterator[Any]] = []
    items = [1, 2, Asks(held), 4]
    held.append(shared.map(calls.same, iter(items), buffersize=2))
    assert next(held[0]) == 2
    assert list(held[0]) == ["1", 4]


class Refuses:
    def __init__(self, error: BaseException) -> None:
        self.error = error

    def __reduce__(self) -> Any:
        raise self.error


@pytest.mark.parametrize("place", [0, 3, 100, 1100, 20_000])
@pytest.mark.parametrize("buffersize", [1, 2, 70, None])
def test_an_item_that_cannot_be_sent_raises_where_its_result_is_asked_for(
    shared: Executor, place: int, buffersize: int | None
) -> None:
    if buffersize is not None and place > 2000:
        pytest.skip("a small window is slow, and has gone round often before")

    def items() -> Iterator[Any]:
        yield from range(place)
        yield threading.Lock()
        yield "behind"
        yield Refuses(ValueError("not me"))

    results = shared.map(calls.same, items(), buffersize=buffersize)
    assert list(itertools.islice(results, place)) == list(range(place))
    with pytest.raises(UnpicklableError):
        next(results)
    assert next(results) == "behind"
    with pytest.raises(Exception, match="not me"):
        next(results)
    assert list(results) == []


@pytest.mark.parametrize("buffersize", [2, None])
def test_an_item_that_cannot_be_sent_comes_behind_those_before_it_out_of_order(
    shared: Executor, buffersize: int | None
) -> None:
    items = [*range(50), threading.Lock(), *range(50, 60)]
    results = shared.map(calls.same, items, ordered=False, buffersize=buffersize)
    before = []
    with pytest.raises(UnpicklableError):
        before.extend(results)
    assert sorted(before) == list(range(50))
    assert sorted(results) == list(range(50, 60))


def test_out_of_order_nothing_behind_an_item_that_cannot_be_sent_is_read_before_its_error(
    shared: Executor, gate: Gate
) -> None:
    read = []

    def items() -> Iterator[Any]:
        for item in (0, threading.Lock(), 2, 3):
            read.append(item)
            yield item

    results = shared.map(functools.partial(calls.enter, gate.path), items(), ordered=False)
    assert len(read) == 2
    gate.close()
    assert next(results) == 0
    with pytest.raises(UnpicklableError):
        next(results)
    assert sorted(results) == [2, 3]


def test_what_an_iterator_raises_comes_behind_the_results_of_its_items(shared: Executor) -> None:
    def items() -> Iterator[int]:
        yield from range(5)
        raise KeyError("source")

    results = shared.map(calls.same, items())
    assert [next(results) for _ in range(5)] == list(range(5))
    with pytest.raises(KeyError, match="source"):
        next(results)
    assert list(results) == []


@pytest.mark.parametrize("error", [KeyboardInterrupt, SystemExit])
def test_an_interrupt_among_the_items_is_raised_at_once_and_costs_no_result(
    shared: Executor, error: type[BaseException]
) -> None:
    stops = [error()]

    class Interrupted:
        def __reduce__(self) -> Any:
            if stops:
                raise stops.pop()
            return int, (3,)

    items: Iterator[Any] = iter([0, 1, 2, Interrupted(), 4])
    results = shared.map(calls.same, items, buffersize=2)
    assert next(results) == 0
    with pytest.raises(error):
        next(results)
    assert list(results) == [1, 2, 3, 4]


def test_a_map_that_is_refused_midway_gives_its_results_first(executor: Executor) -> None:
    results = executor.map(calls.same, itertools.count(), buffersize=10)
    assert next(results) == 0
    executor.shutdown()
    assert [next(results) for _ in range(10)] == list(range(1, 11))
    with pytest.raises(RuntimeError, match="after shutdown"):
        next(results)
    assert list(results) == []


@pytest.mark.parametrize("ordered", [True, False])
def test_a_full_executor_costs_a_map_no_item(
    make_executor: MakeExecutor, gate: Gate, ordered: bool
) -> None:
    executor = make_executor(2, task_limit=4, when_full="raise")
    items = (item if item % 2 else [item] for item in range(300))
    results = executor.map(str, items, buffersize=3, ordered=ordered)
    found = [next(results)]
    held = executor.submit(calls.enter, gate.path)
    found += itertools.islice(results, 200)
    gate.open()
    held.result()
    found += results
    expected = [str(item if item % 2 else [item]) for item in range(300)]
    assert found == expected if ordered else sorted(found) == sorted(expected)


def test_each_result_makes_room_for_one_more_item(shared: Executor, gate: Gate) -> None:
    read = 0

    def items() -> Iterator[int]:
        nonlocal read
        for item in itertools.count():
            read = item + 1
            yield item

    for buffersize in (1, 2, 5, 40, 127):
        read = 0
        results = shared.map(calls.same, items(), buffersize=buffersize)
        assert read == buffersize
        for place in range(2 * buffersize):
            assert next(results) == place
            assert read == buffersize + place + 1


class Rows:
    """Rows whose number is unknown."""

    def __len__(self) -> int:
        raise NotImplementedError("not known before they were read")

    def __length_hint__(self) -> int:
        raise ZeroDivisionError

    def __iter__(self) -> Iterator[str]:
        return iter(["a", "bb"])


@pytest.mark.parametrize("progress", [False, True])
def test_map_needs_no_length(shared: Executor, progress: bool) -> None:
    assert next(shared.map(calls.same, range(10**30), buffersize=10, progress=progress)) == 0
    assert list(shared.map(len, Rows(), progress=progress)) == [1, 2]
    assert list(shared.map(max, Rows(), itertools.cycle("b"), progress=progress)) == ["b", "bb"]


def test_a_map_that_was_never_read_runs_all_its_items_at_the_end_whatever_they_are(
    make_executor: MakeExecutor,
) -> None:
    for items in (range(20_000), (item for item in range(20_000)), Many()):
        executor = make_executor(2)
        results = executor.map(calls.same, items)  # type: ignore[call-overload]
        executor.shutdown()
        assert executor.stats().succeeded == 20_000
        assert list(results) == list(range(20_000))


class Many:
    def __len__(self) -> int:
        raise AssertionError("an error of the reader")

    def __iter__(self) -> Iterator[int]:
        return iter(range(20_000))


def test_progress_without_a_standard_error(script: Script) -> None:
    printed = script.run(
        """
        import io, sys, gristmill

        class Broken(io.StringIO):
            def isatty(self):
                return True
            def write(self, text):
                raise OSError("no space left")

        closed = io.StringIO()
        closed.close()
        with gristmill.Executor(1) as executor:
            for stream in (None, closed, Broken(), object()):
                before, sys.stderr = sys.stderr, stream
                print(list(executor.map(abs, [-1, -2], progress=True)))
                sys.stderr = before
        """
    )
    assert printed == "[1, 2]\n" * 4


@pytest.mark.parametrize("ordered", [True, False])
@pytest.mark.parametrize("count", [1, 400])
def test_a_task_that_raises_stop_iteration_does_not_end_a_loop(
    shared: Executor, ordered: bool, count: int
) -> None:
    items = [[1]] * count + [[]] + [[2]] * count
    results = shared.map(calls.first_of, items, ordered=ordered)
    found, errors = [], []
    while len(found) + len(errors) < len(items):
        try:
            found.append(next(results))
        except RuntimeError as error:
            errors.append(error)
    assert sorted(found) == [1] * count + [2] * count
    assert isinstance(errors[0].__cause__, StopIteration)
    with pytest.raises(RuntimeError, match="StopIteration"):
        list(shared.map(calls.first_of, items))


def test_an_executor_that_is_dropped_ends_though_the_iterator_of_its_map_is_kept(
    tmp_path: Path,
) -> None:
    path = tmp_path / "workers"
    executor = Executor(2, calls.note_process, (str(path),))
    results = executor.map(calls.same, range(200))
    is_gone = weakref.ref(executor)
    del executor
    assert is_gone() is None
    assert list(results) == list(range(200))
    workers = [int(one) for one in path.read_text().split()]
    while any(map(lives, workers)):
        time.sleep(0.001)
    assert list(results) == []


def test_a_map_keeps_the_executor_while_it_has_items_to_submit() -> None:
    results = Executor(1).map(calls.same, itertools.count(), buffersize=2)
    assert [next(results) for _ in range(10)] == list(range(10))
