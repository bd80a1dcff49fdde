"""Futures among arguments: the arguments that are searched, the effects of failures, and chains of any length."""

from __future__ import annotations

import sys
from concurrent.futures import CancelledError, Future, wait
from pathlib import Path
from typing import Any

import pytest

from gristmill import Executor
from gristmill.parsl import DataFlowKernel, join_app, python_app
from gristmill.parsl.dataflow.dependency_resolvers import SHALLOW_DEPENDENCY_RESOLVER
from gristmill.parsl.dataflow.errors import DependencyError, JoinError
from gristmill.parsl.executors.base import ParslExecutor

import calls
from stage import Gate

same = python_app(calls.same)
fail = python_app(calls.fail)


@python_app
def add(*numbers: int) -> int:
    return sum(numbers)


@python_app
def graph_same(value: Any, parsl_resource_specification: Any = None, inputs: Any = ()) -> Any:
    """Returns the value, through the graph because of ``inputs``."""
    return value


def in_graph(value: Any) -> Any:
    return graph_same(value, inputs=[0])


def test_futures_count_wherever_they_are_in_containers(kernel: DataFlowKernel) -> None:
    one, two = same(1), in_graph(2)
    nested = {"list": [one, (two, {one}), [[two]]], two: one, "plain": {"deep": ({"er": two},)}}
    expected = {"list": [1, (2, {1}), [[2]]], 2: 1, "plain": {"deep": ({"er": 2},)}}
    assert same(nested).result() == expected
    assert in_graph(nested).result() == expected
    assert python_app(calls.both)(one, value=[two]).result() == ((1,), {"value": [2]})


def test_containers_without_futures_and_of_other_types_stay(kernel: DataFlowKernel) -> None:
    import collections

    counter = collections.Counter("aab")
    assert same([counter, frozenset({1}), range(3)]).result() == [counter, frozenset({1}), range(3)]


def test_a_container_that_contains_itself_is_passed(make_kernel: Any) -> None:
    kernel = make_kernel("threads")
    loop: list[Any] = [1]
    loop.append(loop)
    value = python_app(calls.same, data_flow_kernel=kernel)(loop).result()
    assert value[1] is value


def test_with_parsls_own_rule_futures_in_containers_stay_futures(make_kernel: Any) -> None:
    kernel = make_kernel("threads", dependency_resolver=SHALLOW_DEPENDENCY_RESOLVER)
    app = python_app(calls.both, data_flow_kernel=kernel)
    one = app(1)
    args, named = app(one, [one], inputs=[one]).result()
    assert args[0] == ((1,), {})
    assert args[1] == [one]
    assert named == {"inputs": [((1,), {})]}


@pytest.mark.parametrize("first", [same, in_graph], ids=["fast_path", "graph"])
@pytest.mark.parametrize("second", [same, in_graph], ids=["fast_path", "graph"])
def test_futures_of_both_ways_depend_on_each_other(
    kernel: DataFlowKernel, gate: Gate, first: Any, second: Any
) -> None:
    held = python_app(calls.enter)(gate.path, 5)
    result = second(first(held))
    assert not result.done()
    gate.open()
    assert result.result() == 5


def test_a_foreign_future_counts(kernel: DataFlowKernel) -> None:
    mine: Future[int] = Future()
    doubled, sum_of_all = same([mine, mine]), add(1, mine)
    assert not doubled.done()
    mine.set_result(4)
    assert doubled.result() == [4, 4]
    assert sum_of_all.result() == 5


def test_a_future_of_another_executor_counts(kernel: DataFlowKernel) -> None:
    with Executor(1) as executor:
        assert add(executor.submit(calls.add, 1, 2), 3).result() == 6


def test_a_foreign_future_that_fails_or_is_cancelled_fails_the_task(
    kernel: DataFlowKernel,
) -> None:
    failed: Future[int] = Future()
    cancelled: Future[int] = Future()
    first, second = same([failed]), same(cancelled)
    failed.set_exception(KeyError("mine"))
    cancelled.cancel()
    cancelled.set_running_or_notify_cancel()
    assert isinstance(first.exception().__cause__, KeyError)
    assert isinstance(second.exception().__cause__, CancelledError)


@pytest.mark.parametrize("way", [same, in_graph], ids=["fast_path", "graph"])
def test_a_task_whose_argument_failed_is_never_started(
    kernel: DataFlowKernel, tmp_path: Path, way: Any
) -> None:
    path = tmp_path / "runs"
    failed = fail("why")
    dependant = python_app(calls.append)(str(path), way(failed))
    with pytest.raises(DependencyError) as failure:
        dependant.result()
    assert dependant.task_status() == "dep_fail"
    assert not path.exists()
    assert isinstance(failure.value.__cause__, ValueError)
    assert str(failure.value.__cause__) == "why"


@pytest.mark.parametrize("way", [same, in_graph], ids=["fast_path", "graph"])
def test_the_error_says_by_which_way_the_failure_came(kernel: DataFlowKernel, way: Any) -> None:
    first, other = fail("one"), fail("two")
    wait([first, other])
    middle = way([first, other])
    last = way(middle)
    error = last.exception()
    assert f"for task {last.tid}" in str(error)
    assert f"via task {middle.tid} <- task {first.tid} (+ others)" in str(error)
    ((inner, where),) = error.dependent_exceptions_tids
    assert where == f"task {middle.tid}"
    assert isinstance(inner, DependencyError)
    assert [str(one) for one, _ in inner.dependent_exceptions_tids] == ["one", "two"]
    assert error.task_id == last.tid


def test_the_error_names_a_future_that_is_no_task(kernel: DataFlowKernel) -> None:
    failed: Future[int] = Future()
    failed.set_exception(KeyError("mine"))
    assert "Future at" in str(same(failed).exception())


def test_a_chain_on_the_engine_is_as_long_as_it_likes(make_kernel: Any, hold: Gate) -> None:
    kernel = make_kernel("engine")
    app = python_app(calls.same, data_flow_kernel=kernel)
    link = python_app(calls.enter, data_flow_kernel=kernel)(hold.path, 7)
    links = [link := app(link) for _ in range(10_000)]
    hold.open()
    assert links[-1].result() == 7


class Inline(ParslExecutor):
    """An executor whose tasks are done when they are submitted: only the kernel prevents nested completions."""

    label = "inline"

    def submit(self, func: Any, /, resource_specification: Any, *args: Any, **kwargs: Any) -> Any:
        """Runs the task."""
        future: Future[Any] = Future()
        future.set_result(func(*args, **kwargs))
        return future

    def shutdown(self) -> None:
        """Does nothing."""


def test_a_chain_through_the_graph_is_as_long_as_it_likes(make_kernel: Any) -> None:
    kernel = make_kernel("threads", executors=[Inline()])
    app = python_app(calls.same, data_flow_kernel=kernel)
    first: Future[int] = Future()
    link: Any = first
    links = [link := app(link) for _ in range(5_000)]
    first.set_result(7)
    assert links[-1].result() == 7


@pytest.mark.parametrize(
    ("is_graph", "length"), [(False, 10_000), (True, 2_000)], ids=["fast_path", "graph"]
)
def test_a_failure_travels_down_a_chain_of_any_length(
    make_kernel: Any, hold: Gate, is_graph: bool, length: int
) -> None:
    kernel = make_kernel("engine")
    app = python_app(graph_same.func, data_flow_kernel=kernel)
    named = {"inputs": [0]} if is_graph else {}
    held = python_app(calls.enter, data_flow_kernel=kernel)(hold.path)
    link = python_app(calls.fail, data_flow_kernel=kernel)(held)
    links = [link := app(link, **named) for _ in range(length)]
    hold.open()
    error = links[-1].exception()
    assert str(error.__cause__) == "None"
    assert f"({length - 100} more)" in str(error)
    joined = join_app(lambda: links[-1], data_flow_kernel=kernel)
    assert isinstance(joined().exception(), JoinError)


def test_a_chain_that_a_join_app_builds_does_not_nest(make_kernel: Any) -> None:
    kernel = make_kernel("threads")
    one_more = python_app(calls.add, data_flow_kernel=kernel)

    def build(length: int) -> Any:
        link: Any = 0
        for _ in range(length):
            link = one_more(link, 1)
        return link

    assert join_app(build, data_flow_kernel=kernel)(3_000).result() == 3_000


def test_many_tasks_may_wait_for_one(make_kernel: Any, hold: Gate) -> None:
    kernel = make_kernel("engine")
    held = python_app(calls.enter, data_flow_kernel=kernel)(hold.path, 1)
    app = python_app(graph_same.func, data_flow_kernel=kernel)
    waiting = [app(held) for _ in range(2_000)] + [app(held, inputs=[held]) for _ in range(500)]
    hold.open()
    assert sum(one.result() for one in waiting) == 2_500


def test_one_task_may_wait_for_many(kernel: DataFlowKernel) -> None:
    numbers = [same(1) for _ in range(1_000)]
    assert add(*numbers).result() == 1_000
    assert python_app(calls.total)(numbers).result() == 1_000
    assert sys.getrecursionlimit() >= 1_000
