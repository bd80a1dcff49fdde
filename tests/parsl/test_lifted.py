"""``future[key]`` and ``future.name``: futures of parts of a value."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from gristmill.parsl import DataFlowKernel, join_app, python_app
from gristmill.parsl.dataflow.errors import DependencyError
from gristmill.parsl.dataflow.futures import AppFuture

import calls

WAYS = pytest.mark.parametrize("way", ["fast_path", "graph"])


@python_app
def same(value: Any, inputs: Any = ()) -> Any:
    return value


def submit(way: str, value: Any) -> Any:
    return same(value) if way == "fast_path" else same(value, inputs=[0])


@WAYS
def test_items_of_a_value_are_futures_too(kernel: DataFlowKernel, way: str) -> None:
    future = submit(way, {"list": [1, 2, 3], 4: (5, 6)})
    assert isinstance(future["list"], AppFuture)
    assert future["list"].result() == [1, 2, 3]
    assert future["list"][1].result() == 2
    assert future["list"][1:].result() == [2, 3]
    assert future[4][-1].result() == 6


@WAYS
def test_attributes_of_a_value_are_futures_too(kernel: DataFlowKernel, way: str) -> None:
    future = submit(way, SimpleNamespace(name="n", inner=SimpleNamespace(size=7)))
    assert future.name.result() == "n"
    assert future.inner.size.result() == 7
    assert submit(way, 3 + 4j).imag.result() == 4


@WAYS
def test_parts_are_arguments_like_any_other(kernel: DataFlowKernel, way: str) -> None:
    future = submit(way, [1, 2])
    assert python_app(calls.add)(future[0], future[1]).result() == 3


@WAYS
def test_what_is_not_there_fails_the_part(kernel: DataFlowKernel, way: str) -> None:
    future = submit(way, [1])
    with pytest.raises(IndexError):
        future[5].result()
    with pytest.raises(AttributeError, match="nonsense"):
        future.nonsense.result()


@WAYS
def test_parts_of_what_failed_fail(kernel: DataFlowKernel, way: str) -> None:
    future = submit(way, python_app(calls.fail)("why"))
    with pytest.raises(DependencyError) as failure:
        future[0].result()
    assert str(failure.value.__cause__) == "why"


@WAYS
def test_private_names_are_not_parts(kernel: DataFlowKernel, way: str) -> None:
    future = submit(way, [1])
    for name in ("_private", "__array_interface__", "__iter_other__"):
        assert not hasattr(future, name)
    assert not isinstance(future.tid, AppFuture)


def test_a_future_is_not_iterated_for_ever(kernel: DataFlowKernel) -> None:
    with pytest.raises(TypeError):
        iter(same([1]))
    with pytest.raises(TypeError):
        1 in same([1])  # noqa: B015 - what is tested


def test_parts_of_a_join_app_are_there_too(kernel: DataFlowKernel) -> None:
    assert join_app(lambda: [same(1), same((2, 3))])()[1][0].result() == 2


def test_a_part_belongs_to_the_kernel_of_its_future(make_kernel: Any) -> None:
    other = make_kernel("engine")
    future = python_app(calls.same, data_flow_kernel=other)([1])
    part = future[0]
    assert part.result() == 1
    assert part.task_record["dfk"] is other


def test_the_tasks_of_parts_have_the_names_that_parsl_gives_them(kernel: DataFlowKernel) -> None:
    future = submit("graph", SimpleNamespace(items=[1]))
    names = [one.task_record["func_name"] for one in (future.items, future.items[0])]
    assert names == ["deferred_getattr", "deferred_getitem"]
