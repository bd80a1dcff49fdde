"""The type of futures is written in native code: Python's operations on objects must work with it."""

from __future__ import annotations

import copy
import gc
import pickle
import sys
import weakref
from collections.abc import Callable

import pytest

from gristmill import Executor, Future

import calls
from stage import Gate

pytestmark = pytest.mark.interpreter


def test_attributes(shared: Executor) -> None:
    future = shared.submit(calls.nothing)
    assert not hasattr(future, "label")
    future.label = "first"  # type: ignore[attr-defined]
    future.label = "second"  # type: ignore[attr-defined]
    assert future.label == "second"  # type: ignore[attr-defined]
    assert vars(future) == {"label": "second"}
    del future.label  # type: ignore[attr-defined]
    assert not hasattr(future, "label")


def test_weak_references(shared: Executor) -> None:
    seen: list[str] = []
    future = shared.submit(calls.nothing)
    reference = weakref.ref(future, lambda _: seen.append("gone"))
    table = weakref.WeakSet([future])
    assert reference() is future
    assert future in table
    del future
    assert reference() is None
    assert seen == ["gone"]
    assert len(table) == 0


def test_cycles_through_attributes_are_collected(shared: Executor) -> None:
    class Witness:
        pass

    witness = Witness()
    gone = weakref.ref(witness)
    future = shared.submit(calls.nothing)
    future.me = future, witness  # type: ignore[attr-defined]
    reference = weakref.ref(future)
    del future, witness
    assert reference() is not None
    gc.collect()
    assert reference() is None
    assert gone() is None


def test_cycles_through_results_and_errors_are_collected(shared: Executor) -> None:
    future = shared.submit(calls.same, [[]])
    value = future.result()
    value[0].append(future)
    reference = weakref.ref(future)
    del future, value
    gc.collect()
    assert reference() is None
    failed = shared.submit(calls.fail)
    failed.exception().future = failed  # type: ignore[union-attr]
    reference = weakref.ref(failed)
    del failed
    gc.collect()
    assert reference() is None


def test_exceptions_are_released_with_their_futures(shared: Executor) -> None:
    future = shared.submit(calls.fail)
    error = future.exception()
    with pytest.raises(ValueError, match="no"):
        future.result()
    assert error is not None
    error.__traceback__ = None
    del future
    gc.collect()
    assert sys.getrefcount(error) == 2, "the name and the argument"


def test_functions_are_released_with_the_executor(make_executor: Callable[..., Executor]) -> None:
    executor = make_executor(1)
    functions = [eval(f"lambda: {number}") for number in range(1500)]
    references = [weakref.ref(function) for function in functions]
    for function in functions:
        executor.submit(function).result()
    del functions, function
    assert sum(reference() is not None for reference in references) <= 1024
    executor.shutdown()
    assert not [reference for reference in references if reference() is not None]


def test_cycles_through_callbacks_are_collected(executor: Executor, gate: Gate) -> None:
    future = executor.submit(calls.enter, gate.path)
    future.add_done_callback(lambda _, keep=future: None)
    reference = weakref.ref(future)
    del future
    gc.collect()
    assert reference() is not None, "a callback that is due keeps its future"
    gate.open()
    executor.shutdown()
    gc.collect()
    assert reference() is None


def test_references_are_counted(shared: Executor) -> None:
    value = shared.submit(calls.same, ["only here"])
    result = value.result()
    before = sys.getrefcount(result)
    for _ in range(100):
        value.result()
    assert sys.getrefcount(result) == before
    kind_before = sys.getrefcount(Future)
    futures = [shared.submit(calls.nothing) for _ in range(1000)]
    for future in futures:
        future.result()
    del futures, future
    assert abs(sys.getrefcount(Future) - kind_before) <= 1


def test_the_collector_may_run_at_any_time(shared: Executor) -> None:
    threshold = gc.get_threshold()
    gc.set_threshold(1)
    try:
        futures = []
        for number in range(2000):
            future = shared.submit(calls.same, [number])
            if number % 3 == 0:
                future.label = future  # type: ignore[attr-defined]
            if number % 5 == 0:
                weakref.ref(future)
            futures.append(future)
        assert [future.result() for future in futures] == [[number] for number in range(2000)]
        del futures, future
    finally:
        gc.set_threshold(*threshold)
    gc.collect()


def test_what_cannot_be_done_says_so(shared: Executor) -> None:
    future = shared.submit(calls.nothing)
    future.result()
    for attempt in (
        lambda: future.set_result(1),
        lambda: future.set_exception(ValueError()),
        future.set_running_or_notify_cancel,
    ):
        with pytest.raises(RuntimeError, match="the engine sets"):
            attempt()
    with pytest.raises((TypeError, pickle.PicklingError)):
        pickle.dumps(future)
    with pytest.raises((TypeError, pickle.PicklingError)):
        copy.copy(future)


def test_arguments_of_methods(shared: Executor) -> None:
    future = shared.submit(calls.same, 1)
    assert future.result(None) == 1
    assert future.result(timeout=5) == 1
    assert future.exception(5) is None
    with pytest.raises(TypeError):
        future.exception("soon")  # type: ignore[arg-type]
    with pytest.raises(TypeError):
        future.exception(1, 2)  # type: ignore[call-arg]
    with pytest.raises(TypeError):
        future.cancel(unknown=1)  # type: ignore[call-arg]
    with pytest.raises(TypeError):
        future.add_done_callback()  # type: ignore[call-arg]


def test_its_text(shared: Executor, make_executor: Callable[..., Executor]) -> None:
    future = shared.submit(calls.same, 1)
    future.result()
    assert "finished returned int" in repr(future)
    failed = shared.submit(calls.fail)
    failed.exception()
    assert "finished raised ValueError" in repr(failed)
    assert future == future
    assert future != failed
    assert len({future, failed, future}) == 2


def test_it_is_small(shared: Executor) -> None:
    assert sys.getsizeof(shared.submit(calls.nothing)) <= 104
