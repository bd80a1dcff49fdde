"""Join apps: their value is the value of the futures that they return."""

from __future__ import annotations

import threading
from concurrent.futures import Future, wait
from typing import Any

import pytest

from gristmill.parsl import DataFlowKernel, join_app, python_app
from gristmill.parsl.dataflow.errors import JoinError

import calls
from stage import Gate

same = python_app(calls.same)
fail = python_app(calls.fail)


@python_app
def add(*numbers: int) -> int:
    return sum(numbers)


@join_app
def fibonacci(number: int) -> Any:
    if number < 2:
        return same(number)
    return add(fibonacci(number - 1), fibonacci(number - 2))


@join_app
def each(values: list[Any]) -> Any:
    return [same(value) for value in values]


def test_the_value_is_that_of_the_future(kernel: DataFlowKernel) -> None:
    assert fibonacci(9).result() == 34


def test_a_list_of_futures_gives_a_list_of_values(kernel: DataFlowKernel) -> None:
    assert each([1, "two", None]).result() == [1, "two", None]
    assert each([]).result() == []
    assert each([1]).result() == [1]


def test_the_value_is_an_argument_like_any_other(kernel: DataFlowKernel) -> None:
    assert add(fibonacci(5), same(1)).result() == 6
    assert each([same(1), each([2])]).result() == [1, [2]]


def test_the_body_runs_in_this_process(kernel: DataFlowKernel) -> None:
    seen = []

    @join_app
    def body() -> Any:
        seen.append(threading.current_thread())
        return same(1)

    assert body().result() == 1
    assert seen[0] is not threading.current_thread()


def test_a_foreign_future_can_be_joined(kernel: DataFlowKernel) -> None:
    mine: Future[int] = Future()
    joining = join_app(lambda: mine)()
    assert not joining.done()
    mine.set_result(3)
    assert joining.result() == 3


@pytest.mark.parametrize("value", [5, None, "future", (), [1], {}])
def test_anything_else_is_refused(kernel: DataFlowKernel, value: Any) -> None:
    with pytest.raises(TypeError, match="Future"):
        join_app(lambda: value)().result()


def test_the_failure_of_a_part_is_the_cause(kernel: DataFlowKernel) -> None:
    part = fail("why")
    joining = join_app(lambda: [same(1), part])()
    with pytest.raises(JoinError) as failure:
        joining.result()
    assert str(failure.value.__cause__) == "why"
    assert f"task {part.tid}" in str(failure.value)
    assert joining.task_status() == "failed"


def test_a_join_app_ends_when_all_parts_have(kernel: DataFlowKernel, gate: Gate) -> None:
    failed, held = fail("why"), python_app(calls.enter)(gate.path)
    joining = join_app(lambda: [failed, held])()
    wait([failed])
    gate.wait_entered()
    assert not joining.done()
    gate.open()
    assert isinstance(joining.exception(), JoinError)


def test_the_failure_of_the_body_is_its_own(kernel: DataFlowKernel) -> None:
    with pytest.raises(ValueError, match="body"):
        join_app(lambda: calls.fail("body"))().result()


def test_a_join_app_whose_argument_failed_has_no_body(kernel: DataFlowKernel) -> None:
    seen: list[int] = []
    joining = join_app(lambda value: seen.append(value))(fail("why"))
    assert str(joining.exception().__cause__) == "why"
    assert seen == []


def test_many_join_apps_wait_in_few_threads(make_kernel: Any) -> None:
    kernel = make_kernel("threads", internal_tasks_max_threads=1)
    leaf = python_app(calls.same, data_flow_kernel=kernel)

    def deeper(depth: int) -> Any:
        return app(depth - 1) if depth else leaf("bottom")

    app = join_app(deeper, data_flow_kernel=kernel)
    assert app(200).result() == "bottom"


def test_a_join_app_gives_its_state(kernel: DataFlowKernel, gate: Gate) -> None:
    held = python_app(calls.enter)(gate.path)
    joining = join_app(lambda: held)()
    gate.wait_entered()
    while joining.task_status() != "joining":
        threading.Event().wait(0)
    assert kernel.task_state_counts[joining.task_record["status"]] == 1
    gate.open()
    joining.result()
    assert joining.task_status() == "exec_done"
