"""Objects that submitted functions capture are freed once their tasks have ended: in the program, and in workers."""

from __future__ import annotations

import functools
import gc
import weakref
from collections.abc import Callable
from typing import Any

import pytest

import tracked
from gristmill import Executor, _functions

import calls

pytestmark = [pytest.mark.interpreter, pytest.mark.long]

#: Functions with mutable captured objects that workers and the program may keep.
KEPT_MAX = 16


def _closure(table: tracked.Tracked) -> Callable[[], int]:
    return lambda: table.size()


def _recursive(table: tracked.Tracked) -> Callable[[], int]:
    def count(depth: int = 2) -> int:
        return count(depth - 1) if depth else table.size()

    return count


def _default(table: tracked.Tracked) -> Callable[[], int]:
    def read(held: tracked.Tracked = table) -> int:
        return held.size()

    return read


def _keyword_default(table: tracked.Tracked) -> Callable[[], int]:
    def read(*, held: tracked.Tracked = table) -> int:
        return held.size()

    return read


def _nested(table: tracked.Tracked) -> Callable[[], int]:
    inner = _closure(table)
    return lambda: inner()


def _wrapped(table: tracked.Tracked) -> Callable[[], int]:
    @functools.wraps(calls.nothing)
    def wrapper() -> int:
        return table.size()

    return wrapper


def _constant(number: int) -> Callable[[], int]:
    return lambda: number


class Caller:
    def __init__(self, table: tracked.Tracked) -> None:
        self.table = table

    def __call__(self) -> int:
        return self.table.size()


MAKERS: dict[str, Callable[[tracked.Tracked], Callable[[], int]]] = {
    "bound method": lambda table: table.size,
    "closure": _closure,
    "recursive closure": _recursive,
    "default": _default,
    "keyword default": _keyword_default,
    "function of a function": _nested,
    "wrapper": _wrapped,
    "partial": lambda table: functools.partial(tracked.Tracked.size, table),
    "callable instance": Caller,
}


@pytest.fixture(params=MAKERS)
def make(request: pytest.FixtureRequest) -> Callable[[tracked.Tracked], Callable[[], int]]:
    return MAKERS[request.param]


def test_what_a_submitted_function_captures_is_let_go(
    executor: Executor, make: Callable[[tracked.Tracked], Callable[[], int]]
) -> None:
    references = []
    for _ in range(3):
        table = tracked.Tracked(10)
        references.append(weakref.ref(table))
        assert executor.submit(make(table)).result() == 10
        function = make(table)
        assert list(executor.map(lambda _, function=function: function(), range(2))) == [10, 10]
        del function
        assert executor.options(retries=1).submit(make(table)).result() == 10
        del table
    gc.collect()
    assert [reference() for reference in references] == [None] * 3


def test_workers_let_go_of_what_functions_captured(
    make_executor: Callable[..., Executor], make: Callable[[tracked.Tracked], Callable[[], int]]
) -> None:
    executor = make_executor(1)
    for size in range(60):
        assert executor.submit(make(tracked.Tracked(size))).result() == size
    assert executor.submit(tracked.count_alive).result() <= KEPT_MAX + 1


def test_workers_let_go_of_functions_that_were_outstanding_together(
    make_executor: Callable[..., Executor],
) -> None:
    executor = make_executor(2)
    futures = [executor.submit(tracked.Tracked(size).size) for size in range(200)]
    assert [future.result() for future in futures] == list(range(200))
    counts = {
        executor.submit(tracked.count_alive, process).result()
        for process in range(2)
        for _ in range(4)
    }
    assert max(counts) <= KEPT_MAX + 1


def test_a_task_lets_go_of_what_functions_of_its_tasks_captured(executor: Executor) -> None:
    alive = executor.submit(tracked.count_after_nested_submissions, 40).result()
    assert alive <= KEPT_MAX + 1


def test_definitions_of_large_functions_take_bounded_memory(
    make_executor: Callable[..., Executor],
) -> None:
    from test_functions import resident_kib

    executor = make_executor(1)
    held: list[Any] = []

    def submit(count: int) -> None:
        for number in range(count):
            data = bytes([number % 256]) * 2**20
            function = functools.partial(len, data) if number % 2 else (lambda data=data: len(data))
            assert executor.submit(function).result() == 2**20
            # Such a function is known as long as it lives; its captured objects are its own.
            held.append(weakref.ref(function))

    submit(40)
    before = resident_kib()
    submit(400)
    assert resident_kib() - before < 100 * 1024
    assert sum(reference() is not None for reference in held) <= 1


def test_functions_that_are_called_in_turns_are_described_once_however_many_there_are(
    executor: Executor, monkeypatch: pytest.MonkeyPatch
) -> None:
    described = []

    def definition(function: Callable[..., object], *dependencies: Any) -> bytes:
        described.append(function)
        return define(function, *dependencies)

    define = _functions.definition
    monkeypatch.setattr(_functions, "definition", definition)
    functions = [_constant(number) for number in range(1_500)]
    for _ in range(2):
        futures = [executor.submit(function) for function in functions]
        assert [future.result() for future in futures] == list(range(1_500))
    assert len(described) == 1_500


def test_a_function_larger_than_all_that_is_kept_goes_with_its_task(
    make_executor: Callable[..., Executor],
) -> None:
    from test_functions import resident_kib

    executor = make_executor(1)
    data = bytes(300 * 2**20)
    function = lambda: len(data)  # noqa: E731 - it stays alive
    assert executor.submit(function).result() == len(data)
    before = resident_kib()
    for _ in range(2):
        assert executor.submit(function).result() == len(data)
    assert resident_kib() - before < 100 * 1024


def test_a_value_that_was_replaced_is_not_kept_by_a_function_that_lives(
    executor: Executor,
) -> None:
    def inner() -> int:
        return 1

    def function() -> int:
        return inner()

    reference = weakref.ref(inner)
    assert executor.submit(function).result() == 1

    def inner() -> int:  # type: ignore[no-redef]
        return 2

    gc.collect()
    assert reference() is None
    assert executor.submit(function).result() == 2


def test_a_function_at_the_address_of_another_is_not_taken_for_it(executor: Executor) -> None:
    def make(value: int) -> Callable[[], int]:
        return lambda: value

    # Each function is freed before the next is made, most likely at the same address.
    assert [executor.submit(make(value)).result() for value in range(300)] == list(range(300))
    assert [executor.submit(eval(f"lambda: {value}")).result() for value in range(100)] == list(
        range(100)
    )


def test_long_constants_that_changed_are_noticed(executor: Executor) -> None:
    text = "a" * 100_000

    def last() -> str:
        return text[-1]

    for letter in "abcab":
        text = letter * 100_000
        assert executor.submit(last).result() == letter


def test_defaults_that_changed_in_place_are_noticed(executor: Executor) -> None:
    def read(*, more: int = 1) -> int:
        return more

    assert executor.submit(read).result() == 1
    assert read.__kwdefaults__ is not None
    read.__kwdefaults__["more"] = 2
    assert executor.submit(read).result() == 2
