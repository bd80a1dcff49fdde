"""Futures as arguments of other tasks."""

from __future__ import annotations

import concurrent.futures
import gc
import os
import weakref
from collections.abc import Callable
from pathlib import Path

import pytest

import gristmill
from gristmill import Executor, Future

import calls
from stage import Gate, on_little_stack

MakeExecutor = Callable[..., Executor]
#: Links of the long chain: on a small stack, any recursion would overflow long before.
LINKS = 20_000


def test_a_future_is_replaced_by_its_value(shared: Executor) -> None:
    one = shared.submit(calls.add, 1)
    two = shared.submit(calls.add, one, 1)
    assert shared.submit(calls.add, one, two, 1).result() == 4
    assert shared.submit(calls.both, one, key=two).result() == ((1,), {"key": 2})


def test_futures_inside_lists_tuples_and_dicts(shared: Executor) -> None:
    one, two = shared.submit(calls.add, 1), shared.submit(calls.add, 2)
    nested = [one, (two, {"a": one, "b": [two]}), {"c": (one,)}]
    assert shared.submit(calls.same, nested).result() == [1, (2, {"a": 1, "b": [2]}), {"c": (1,)}]


def test_futures_inside_other_objects(shared: Executor) -> None:
    class Box:
        def __init__(self, content: object) -> None:
            self.content = content

    one = shared.submit(calls.add, 1)
    assert shared.submit(lambda box: box.content, Box(one)).result() == 1
    assert shared.submit(lambda box: box.content, Box({"deep": [one, one]})).result() == {
        "deep": [1, 1]
    }


def test_values_of_every_kind_pass_on(shared: Executor) -> None:
    for value in (
        None,
        2**80,
        "text",
        b"bytes",
        [1, {"a": (2.5, None)}],
        {1, 2},
        Path("/tmp"),
        3 + 4j,
    ):
        future = shared.submit(calls.same, value)
        assert shared.submit(calls.same, future).result() == value
        assert shared.submit(calls.same, [future, future]).result() == [value, value]


def test_fan_in_and_fan_out(shared: Executor) -> None:
    root = shared.submit(calls.add, 1)
    leaves = [shared.submit(calls.add, root, number) for number in range(1000)]
    assert shared.submit(calls.total, leaves).result() == sum(range(1, 1001))
    assert shared.submit(calls.total, dict(enumerate(leaves))).result() == sum(range(1, 1001))
    assert shared.submit(calls.add, *leaves).result() == sum(range(1, 1001))


def test_thousands_of_futures_in_one_call(shared: Executor) -> None:
    leaves = [shared.submit(calls.same, number) for number in range(3000)]
    numbers = list(range(3000))
    # Each future occurs twice, in two orders: its result is sent once.
    mixed = [*leaves, *reversed(leaves)]
    expected = tuple(numbers + numbers[::-1])
    assert shared.submit(calls.both, *mixed).result() == (expected, {})
    assert shared.submit(calls.same, mixed).result() == list(expected)
    assert shared.submit(calls.same, tuple(mixed)).result() == expected
    named = {f"n{number}": leaf for number, leaf in enumerate(leaves)}
    assert shared.submit(calls.both, -1, **named).result() == (
        (-1,),
        {f"n{number}": number for number in numbers},
    )
    assert shared.submit(calls.same, named).result() == {f"n{n}": n for n in numbers}


def test_a_dependant_waits_for_its_parent(make_executor: MakeExecutor, gate: Gate) -> None:
    executor = make_executor(2)
    held = executor.submit(calls.enter, gate.path, "value")
    dependant = executor.submit(calls.same, held)
    gate.wait_entered()
    assert not dependant.done()
    assert not dependant.running()
    gate.open()
    assert dependant.result() == "value"


def test_a_long_chain(make_executor: MakeExecutor) -> None:
    executor = make_executor(2)

    def run() -> None:
        link: Future[int] = executor.submit(calls.add, 0)
        for _ in range(LINKS // 4):
            link = executor.submit(calls.add, link, 1)
        assert link.result() == LINKS // 4

    on_little_stack(run)


def test_a_long_chain_that_was_held_runs_and_is_released(
    make_executor: MakeExecutor, gate: Gate
) -> None:
    executor = make_executor(2)

    def run() -> None:
        links: list[Future[int]] = [executor.submit(calls.enter, gate.path, 0)]
        for _ in range(LINKS):
            links.append(executor.submit(calls.add, links[-1], 1))
        gate.open()
        assert links[-1].result() == LINKS
        assert links[LINKS // 2].result() == LINKS // 2
        del links
        assert executor.stats().outstanding == 0

    on_little_stack(run)


def test_a_long_chain_fails_from_its_root(make_executor: MakeExecutor, gate: Gate) -> None:
    executor = make_executor(1)
    held = executor.submit(calls.enter, gate.path)

    def run() -> None:
        link: Future[object] = executor.submit(calls.fail, "root of it")
        links = [link]
        for _ in range(LINKS):
            links.append(executor.submit(calls.same, links[-1]))
        gate.open()
        with pytest.raises(gristmill.DependencyError) as caught:
            links[-1].result()
        assert isinstance(caught.value.__cause__, ValueError)
        assert held.exception() is None

    on_little_stack(run)


def test_a_failed_parent_is_the_cause(shared: Executor, tmp_path: Path) -> None:
    note = tmp_path / "note"
    parent = shared.submit(calls.fail, "why")
    child = shared.submit(lambda _, path: calls.append(path, "ran"), parent, str(note))
    grandchild = shared.submit(calls.same, [child])
    for future in (child, grandchild):
        with pytest.raises(
            gristmill.DependencyError, match="whose result is an argument"
        ) as caught:
            future.result()
        assert isinstance(caught.value.__cause__, ValueError)
        assert "why" in str(caught.value.__cause__)
        assert isinstance(future.exception(), gristmill.DependencyError)
    assert not note.exists()


def test_a_parent_that_failed_before_the_submit(shared: Executor) -> None:
    parent = shared.submit(calls.fail)
    parent.exception()
    with pytest.raises(gristmill.DependencyError):
        shared.submit(calls.same, parent).result()


def test_a_cancelled_parent(make_executor: MakeExecutor, gate: Gate) -> None:
    executor = make_executor(1)
    executor.submit(calls.enter, gate.path)
    gate.wait_entered()
    parent = executor.submit(calls.nothing)
    child = executor.submit(calls.same, parent)
    assert parent.cancel()
    with pytest.raises(gristmill.DependencyError) as caught:
        child.result()
    assert isinstance(caught.value.__cause__, concurrent.futures.CancelledError)


def test_a_cancelled_child_leaves_its_parents_alone(
    make_executor: MakeExecutor, gate: Gate
) -> None:
    executor = make_executor(1)
    parent = executor.submit(calls.enter, gate.path, 1)
    child = executor.submit(calls.same, parent)
    other = executor.submit(calls.same, parent)
    assert child.cancel()
    assert child.cancelled()
    gate.open()
    assert other.result() == 1


def test_a_lost_parent(executor: Executor) -> None:
    parent = executor.submit(os._exit, 3)
    with pytest.raises(gristmill.DependencyError) as caught:
        executor.submit(calls.same, parent).result()
    assert isinstance(caught.value.__cause__, gristmill.WorkerLostError)


def test_a_parents_future_need_not_be_kept(make_executor: MakeExecutor, gate: Gate) -> None:
    executor = make_executor(1)
    parent = executor.submit(calls.enter, gate.path, [1, 2])
    child = executor.submit(calls.same, parent)
    gone = weakref.ref(parent)
    del parent
    gc.collect()
    assert gone() is None
    gate.open()
    assert child.result() == [1, 2]


def test_a_future_of_another_executor_is_refused(make_executor: MakeExecutor) -> None:
    one, other = make_executor(1), make_executor(1)
    foreign = other.submit(calls.add, 1)
    with pytest.raises(ValueError, match="another executor"):
        one.submit(calls.same, foreign)
    with pytest.raises(ValueError, match="another executor"):
        one.submit(calls.same, [foreign])


def test_a_future_of_another_library_is_refused(shared: Executor) -> None:
    foreign: concurrent.futures.Future[int] = concurrent.futures.Future()
    for argument in (foreign, [foreign], {1: {foreign}}):
        with pytest.raises(ValueError, match="another executor"):
            shared.submit(calls.same, argument)


def test_a_finished_parent_is_used_again_after_its_worker_died(executor: Executor) -> None:
    parent = executor.submit(calls.same, "kept")
    parent.result()
    for _ in range(2):
        executor.submit(os._exit, 1).exception()
    assert executor.submit(calls.same, parent).result() == "kept"


def test_dependants_of_a_retried_parent(shared: Executor, tmp_path: Path) -> None:
    parent = shared.options(retries=2).submit(calls.fail_first, str(tmp_path / "note"), 2)
    assert shared.submit(calls.add, parent, 1).result() == 4
