"""Exceptions that are not derived from ``Exception``, and ``StopIteration``: user code may raise them at any place, and
no task hangs or is lost.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import logging
import queue
import sys
import threading
from collections.abc import Callable
from typing import Any

import pytest

import gristmill
from gristmill import Executor, Future

import calls
from stage import Gate, Script

KINDS: list[type[BaseException]] = [
    StopIteration,
    StopAsyncIteration,
    GeneratorExit,
    KeyboardInterrupt,
    SystemExit,
    asyncio.CancelledError,
    BaseException,
]
kinds = pytest.mark.parametrize("kind", KINDS)


class Stop(StopIteration):
    pass


def fail(kind: type[BaseException]) -> None:
    raise kind("raised by the task")


@kinds
def test_a_future_gives_what_the_task_raised(shared: Executor, kind: type[BaseException]) -> None:
    future = shared.submit(fail, kind)
    with pytest.raises(kind):
        future.result()
    assert type(future.exception()) is kind
    assert future.done()
    assert not future.cancelled()
    assert concurrent.futures.wait([future]).done == {future}
    assert list(concurrent.futures.as_completed([future])) == [future]
    assert gristmill.wait_any([future]) is future


@kinds
@pytest.mark.parametrize("ordered", [True, False])
def test_a_loop_over_a_map_ends_with_an_error(
    shared: Executor, kind: type[BaseException], ordered: bool
) -> None:
    expected = RuntimeError if kind is StopIteration else kind
    results = shared.map(fail, [kind, kind], ordered=ordered)
    for _ in range(2):
        with pytest.raises(expected):
            for _result in results:
                pass
    assert list(results) == []


@pytest.mark.parametrize("kind", [*KINDS, Stop])
def test_awaiting_a_task_that_raises_ends(shared: Executor, kind: type[BaseException]) -> None:
    async def one(way: Callable[[], Any]) -> BaseException | None:
        try:
            await way()
        except BaseException as error:
            return error
        return None

    def run(way: Callable[[], Any]) -> BaseException | None:
        try:
            return asyncio.run(one(way))
        except (
            BaseException
        ) as error:  # asyncio lets KeyboardInterrupt and SystemExit through the loop
            return error

    ways: list[Callable[[], Any]] = [
        lambda: shared.submit(fail, kind),
        lambda: asyncio.wrap_future(shared.submit(fail, kind)),
        lambda: asyncio.get_running_loop().run_in_executor(shared, fail, kind),
    ]
    for way in ways:
        found = run(way)
        if issubclass(kind, StopIteration):
            assert isinstance(found, RuntimeError)
            assert type(found.__cause__) is kind
        else:
            assert type(found) is kind


@kinds
def test_a_callback_that_raises_stops_no_other(
    shared: Executor, gate: Gate, kind: type[BaseException], caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.CRITICAL + 1)
    called: list[int] = []
    ran = threading.Event()

    def stop(_future: object) -> None:
        raise kind

    future = shared.submit(calls.enter, gate.path)
    for number in range(3):
        future.add_done_callback(stop)
        future.add_done_callback(lambda _, number=number: called.append(number))  # type: ignore[misc]
    future.add_done_callback(lambda _: ran.set())
    gate.open()
    ran.wait()
    assert called == [0, 1, 2]
    later = threading.Event()
    second = shared.submit(calls.enter, gate.path)
    second.add_done_callback(lambda _: later.set())
    gate.open()
    later.wait()


@kinds
def test_a_callback_of_a_task_that_has_ended_raises_as_in_the_standard_library(
    shared: Executor, kind: type[BaseException]
) -> None:
    ours = shared.submit(calls.same, 1)
    ours.result()
    theirs: concurrent.futures.Future[int] = concurrent.futures.Future()
    theirs.set_result(1)

    def stop(_future: object) -> None:
        raise kind

    def outcome(future: Any) -> type[BaseException] | None:
        try:
            future.add_done_callback(stop)
        except BaseException as error:
            return type(error)
        return None

    assert outcome(ours) == outcome(theirs)
    seen: list[Future[int]] = []
    ours.add_done_callback(seen.append)
    assert seen == [ours]


class Reduces:
    def __init__(self, kind: type[BaseException]) -> None:
        self.kind = kind

    def __reduce__(self) -> Any:
        raise self.kind("raised by an argument")


@kinds
def test_an_argument_that_raises_while_it_is_pickled(
    shared: Executor, gate: Gate, kind: type[BaseException]
) -> None:
    with pytest.raises((kind, gristmill.UnpicklableError)):
        shared.submit(calls.same, Reduces(kind))
    assert shared.submit(calls.same, 1).result() == 1
    # This runs in the thread of the dispatcher, where callbacks submit.
    ran = threading.Event()
    held = shared.submit(calls.enter, gate.path)
    held.add_done_callback(lambda _: shared.submit(calls.same, Reduces(kind)))
    held.add_done_callback(lambda _: ran.set())
    gate.open()
    ran.wait()


def unpickle(kind: type[BaseException]) -> None:
    raise kind("raised by unpickling")


class Unpickles:
    def __init__(self, kind: type[BaseException]) -> None:
        self.kind = kind

    def __reduce__(self) -> Any:
        return unpickle, (self.kind,)


def give(kind: type[BaseException], when: type) -> Any:
    return when(kind)


@kinds
@pytest.mark.parametrize("when", [Reduces, Unpickles])
def test_what_raises_between_processes_costs_its_own_task_only(
    shared: Executor, kind: type[BaseException], when: type
) -> None:
    futures = [shared.submit(calls.same, 1)]
    if when is Unpickles:
        futures.append(shared.submit(calls.same, Unpickles(kind)))
    futures.append(shared.submit(give, kind, when))
    futures.append(shared.submit(calls.same, 2))
    assert futures[0].result() == 1
    for future in futures[1:-1]:
        with pytest.raises((kind, RuntimeError, gristmill.GristmillError)) as caught:
            future.result()
        assert not isinstance(caught.value, gristmill.WorkerLostError)
    assert futures[-1].result() == 2
    with pytest.raises((kind, RuntimeError, gristmill.GristmillError)):
        list(shared.map(give, [kind], [when]))
    assert list(shared.map(calls.same, [3])) == [3]


class Deleted:
    def __init__(self, kind: type[BaseException]) -> None:
        self.kind = kind

    def __del__(self) -> None:
        raise self.kind

    def __eq__(self, other: object) -> bool:
        raise self.kind

    __hash__ = object.__hash__


def hold_deleted(kind: type[BaseException]) -> int:
    Deleted(kind)
    return 1


@kinds
def test_destructors_and_comparisons_that_raise(
    shared: Executor, kind: type[BaseException], monkeypatch: pytest.MonkeyPatch
) -> None:
    # The dispatcher may drop the callback, and call the destructor, after `result()` has returned.
    dropped: queue.SimpleQueue[Any] = queue.SimpleQueue()
    monkeypatch.setattr(sys, "unraisablehook", lambda raised: dropped.put(raised.exc_type))
    assert shared.submit(hold_deleted, kind).result() == 1
    future = shared.submit(calls.same, 1)
    deleted = Deleted(kind)
    future.add_done_callback(lambda _, held=deleted: None)  # type: ignore[misc]
    del deleted
    future.result()
    del future
    assert dropped.get() is kind
    assert list(shared.map(lambda item: item, [1])) == [1]


def nested_callbacks(kind: type[BaseException]) -> list[Any]:
    executor = gristmill.current_executor()
    called: list[Any] = []

    def stop(_future: object) -> None:
        raise kind

    future = executor.submit(calls.same, 1)
    future.add_done_callback(stop)
    future.add_done_callback(lambda done: called.append(done.result()))
    try:
        called.append(future.result())
    except BaseException as error:
        called.append(type(error).__name__)
    loop = executor.map(fail, [kind])
    try:
        called.append(list(loop))
    except BaseException as error:
        called.append(type(error).__name__)
    return called


@kinds
def test_the_same_in_tasks(shared: Executor, kind: type[BaseException]) -> None:
    found = shared.submit(nested_callbacks, kind).result()
    expected = "RuntimeError" if kind is StopIteration else kind.__name__
    assert found[0] == 1
    assert found[1] in (1, "KeyboardInterrupt")
    assert found[2] == expected


def leave_callbacks_behind() -> int:
    executor = gristmill.current_executor()
    for _ in range(20):
        executor.submit(calls.same, 1).add_done_callback(calls.same)
    return 1


def test_callbacks_of_a_task_that_has_ended_are_left_aside_in_silence(
    script: Script,
) -> None:
    with script.start(
        """
        import gristmill, test_base_exceptions
        with gristmill.Executor(1) as executor:
            for _ in range(20):
                executor.submit(test_base_exceptions.leave_callbacks_behind).result()
        """
    ) as process:
        _printed, errors = process.communicate()
    assert errors == ""
    assert process.returncode == 0
