"""The payload of a noted task: its function is sent once as long as it does not change, and its answer takes the
shortest way that the engine has.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from concurrent.futures import CancelledError, Future
from pathlib import Path
from typing import Any

import pytest

from gristmill import _functions
from gristmill._native import encode_payload
from gristmill_bench import BenchError, Engine
from gristmill_bench.call import Call, value_of
from gristmill_bench.ended import Ended
from gristmill_bench.executors.here import Inline, Threads
from gristmill_bench.executors.ours import Gristmill
from gristmill_bench.executors.pools import Processes
from gristmill_bench.filters import Never
from gristmill_bench.transformers.files import PickledFiles

TASKS = 5
#: First byte of a payload that is a pickle (PROTOCOL.md: values).
PICKLE = 33
GLOBAL = 1


def double(number: int) -> int:
    return 2 * number


def scaled(held: int, number: int) -> int:
    return held * number


def same(value: Any) -> Any:
    return value


def where() -> int:
    return os.getpid()


def fail() -> None:
    raise ValueError("no")


@pytest.fixture
def ours() -> Iterator[Any]:
    backend = Gristmill(workers=1).open()
    yield backend
    backend.shutdown()


@pytest.fixture
def described(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """Returns a list of the functions that are described to workers. A description takes longer than many tasks."""
    found: list[Any] = []
    definition = _functions.definition

    def described(function: Any, *dependencies: Any) -> bytes:
        found.append(function)
        return definition(function, *dependencies)

    monkeypatch.setattr(_functions, "definition", described)
    return found


class Notes:
    """An engine's notes."""

    def __init__(self) -> None:
        self.ended: list[Ended] = []

    def note(self, task: Ended) -> None:
        self.ended.append(task)

    def close(self) -> None: ...


def results(submit: Callable[[int], Any]) -> list[Any]:
    return [submit(number).result(30) for number in range(TASKS)]


def test_a_function_that_is_noted_is_described_once(ours: Any, described: list[Any]) -> None:
    engine = Engine(ours, records=(notes := Notes()))
    assert results(lambda number: engine.submit(double, number)) == [0, 2, 4, 6, 8]
    assert len(described) == 1
    engine.finish()
    assert sorted(one.number for one in notes.ended) == list(range(TASKS))


def test_a_function_by_value_that_is_noted_is_described_once(
    ours: Any, described: list[Any]
) -> None:
    factor = 3
    by_value = lambda number: factor * number  # noqa: E731
    engine = Engine(ours, records=Notes())
    assert results(lambda number: engine.submit(by_value, number)) == [0, 3, 6, 9, 12]
    assert len(described) == 1


def test_what_is_transformed_is_described_once(
    ours: Any, tmp_path: Path, described: list[Any]
) -> None:
    transformer = PickledFiles().open(tmp_path)
    engine = Engine(ours, filter=Never(), transformer=transformer)
    assert results(lambda number: engine.submit(double, number)) == [0, 2, 4, 6, 8]
    assert len(described) == 1
    transformer.close()


@pytest.mark.parametrize("reuse", ["memory", "none"])
def test_what_tasks_share_is_described_once(ours: Any, described: list[Any], reuse: Any) -> None:
    inside = Engine(ours, records=Notes()).within(same, 4, reuse=reuse)
    assert results(lambda number: inside.submit(scaled, number)) == [0, 4, 8, 12, 16]
    assert [one for one in described if type(one) is Call] == described[-1:]


def test_a_function_that_has_changed_is_sent_anew(ours: Any) -> None:
    captured, factor = [1], 1
    reads_list = lambda: sum(captured)  # noqa: E731
    reads_cell = lambda: factor  # noqa: E731
    reads_global = eval("lambda: number", {"number": 1})
    functions = [reads_list, reads_cell, reads_global]
    submit = Engine(ours, records=Notes()).submit
    assert [submit(one).result(30) for one in functions] == [1, 1, 1]
    captured.append(1)
    factor = 2
    reads_global.__globals__["number"] = 2
    assert [submit(one).result(30) for one in functions] == [2, 2, 2]
    reads_cell.__code__ = (lambda: factor + 1).__code__
    assert submit(reads_cell).result(30) == 3


def test_functions_of_the_same_name_are_not_mixed(ours: Any) -> None:
    def of(number: int) -> Callable[[], int]:
        def function() -> int:
            return number

        return function

    engines = [Engine(ours, records=Notes()), Engine(ours, records=Notes())]
    calls = [(engine, of(number)) for number in range(4) for engine in engines]
    for _ in range(2):
        found = [engine.submit(function).result(30) for engine, function in calls]
        assert found == [0, 0, 1, 1, 2, 2, 3, 3]


def test_an_answer_is_no_pickle_where_the_result_needs_none() -> None:
    answer = Call(double, None, sizes=True)(4)
    assert value_of(answer) == 8
    assert encode_payload(answer)[0] != PICKLE


def test_steps_at_which_nothing_is_done_take_no_time() -> None:
    *_, begun, ready, returned, put, _, _ = Call(double, None)(4)
    assert (begun, returned) == (ready, put)


@pytest.mark.parametrize(
    "executor", [Inline(), Threads(), Gristmill()], ids=lambda one: type(one).__name__
)
def test_tuples_that_look_like_answers_are_what_they_are(executor: Any) -> None:
    np = pytest.importorskip("numpy")
    backend = executor.open()
    try:
        submit = Engine(backend, records=Notes()).submit
        texts, arrays = ("a",) * 10, (np.arange(3),) * 10
        assert submit(same, submit(same, texts)).result(30) == texts
        assert np.array_equal(submit(same, submit(same, arrays)).result(30)[0], arrays[0])
        assert Engine(backend).submit(same, texts).result(30) == texts
    finally:
        backend.shutdown()


@pytest.mark.parametrize(
    "executor", [Inline(), Processes(start="fork"), Gristmill()], ids=lambda one: type(one)
)
def test_the_process_that_is_noted_is_the_one_that_ran_the_task(executor: Any) -> None:
    backend = executor.open()
    try:
        engine = Engine(backend, records=(notes := Notes()))
        ran = results(lambda _: engine.submit(where))
        engine.finish()
        assert [one.process for one in sorted(notes.ended, key=lambda one: one.number)] == ran
    finally:
        backend.shutdown()


def test_who_waits_for_a_task_is_called_once_it_is_noted() -> None:
    happened: list[str] = []
    inner: Future[Any] = Future()

    class Spy(Notes):
        def note(self, task: Ended) -> None:
            happened.append("noted")

    class Slow:
        """An executor whose task ends on request."""

        def submit(self, function: Any, /, *args: Any, **kwargs: Any) -> Future[Any]:
            return inner

        def shutdown(self) -> None: ...

    task = Engine(Slow(), records=Spy()).submit(double, 1)
    task.add_done_callback(lambda _: happened.append("first"))
    task.add_done_callback(lambda _: happened.append("second"))
    assert happened == []
    inner.set_result(Call(double, None)(1))
    task.add_done_callback(lambda one: happened.append(f"late, of {one.number}"))
    assert happened == ["noted", "first", "second", "late, of 0"]


def test_a_stream_goes_on_where_nothing_can_be_noted_and_the_end_says_so() -> None:
    class Full(Notes):
        def note(self, task: Ended) -> None:
            raise OSError("no space left")

    backend = Threads().open()
    try:
        engine = Engine(backend, records=Full())
        stream = engine.stream([engine.submit(double, number) for number in range(3)])
        assert sorted(task.result() for task in stream) == [0, 2, 4]
        with pytest.raises(BenchError, match="3 of 3 tasks could not be noted: OSError: no space"):
            engine.finish()
    finally:
        backend.shutdown()


@pytest.mark.parametrize("records", [None, Notes()], ids=["bare", "noted"])
def test_a_stream_gives_what_failed_and_what_was_cancelled(records: Any) -> None:
    inner: list[Future[Any]] = []

    class Slow:
        """An executor whose tasks end on request."""

        def submit(self, function: Any, /, *args: Any, **kwargs: Any) -> Future[Any]:
            inner.append(Future())
            return inner[-1]

        def shutdown(self) -> None: ...

    engine = Engine(Slow(), records=records)
    stream = engine.stream([engine.submit(fail)])
    inner[0].set_exception(ValueError("no"))
    assert isinstance(next(stream).exception(), ValueError)
    stream.add(engine.submit(double, 1))
    inner[1].cancel()
    with pytest.raises(CancelledError):
        next(stream).result()
    for number in range(2, 5):
        stream.add(engine.submit(double, number))
    for number in (3, 4, 2):
        inner[number].set_result(Call(double, None)(number))
    assert [task.number for task in stream] == [3, 4, 2]


def test_a_stream_of_one_task_at_a_time_makes_no_callback() -> None:
    class Uncalled(Future[Any]):
        def add_done_callback(self, callback: Any) -> None:
            raise AssertionError("another thread would be woken")

    class Now:
        def submit(self, function: Any, /, *args: Any, **kwargs: Any) -> Future[Any]:
            future = Uncalled()
            future.set_result(function(*args, **kwargs))
            return future

        def shutdown(self) -> None: ...

    engine = Engine(Now())
    stream = engine.stream([engine.submit(double, 0)])
    found = []
    for task in stream:
        found.append(task.result())
        if len(found) < TASKS:
            stream.add(engine.submit(double, len(found)))
    assert found == [0, 2, 4, 6, 8]
