"""Retries of failed tasks: which failures are retried, how often, and the costs that the retry handler sets."""

from __future__ import annotations

from concurrent.futures import Future
from pathlib import Path
from typing import Any, NoReturn

import pytest

import gristmill
from gristmill.parsl import ThreadPoolExecutor, join_app, python_app
from gristmill.parsl.dataflow.errors import DependencyError, JoinError

import calls
from attempts import die_first, fail_and_die, fail_first

KINDS = pytest.mark.parametrize("kind", ["threads", "engine"])
#: Plain calls take the fast path to the engine; calls with ``inputs`` go through the graph.
WAYS = pytest.mark.parametrize("named", [{}, {"inputs": [0]}], ids=["plain", "with inputs"])


def runs(path: Path) -> int:
    return len(path.read_text().splitlines())


@KINDS
@WAYS
def test_a_task_is_tried_again_as_often_as_configured(
    make_kernel: Any, tmp_path: Path, kind: str, named: Any
) -> None:
    app = python_app(fail_first, data_flow_kernel=make_kernel(kind, retries=2))
    assert app(str(tmp_path / "good"), 2, **named).result() == 3
    with pytest.raises(ValueError, match="run 3"):
        app(str(tmp_path / "bad"), 3, **named).result()
    assert runs(tmp_path / "bad") == 3


@KINDS
@WAYS
def test_without_retries_a_task_runs_once(
    make_kernel: Any, tmp_path: Path, kind: str, named: Any
) -> None:
    app = python_app(fail_first, data_flow_kernel=make_kernel(kind))
    with pytest.raises(ValueError, match="run 1"):
        app(str(tmp_path / "runs_of_it"), 1, **named).result()
    assert runs(tmp_path / "runs_of_it") == 1


@WAYS
def test_a_lost_worker_has_a_budget_of_its_own(
    make_kernel: Any, tmp_path: Path, named: Any
) -> None:
    kernel = make_kernel("engine", retries=0, loss_retries=1)
    app = python_app(die_first, data_flow_kernel=kernel)
    assert app(str(tmp_path / "good"), 1, **named).result() == 2
    with pytest.raises(gristmill.WorkerLostError, match="SIGKILL"):
        app(str(tmp_path / "bad"), 2, **named).result()
    with pytest.raises(ValueError, match="run 1"):
        python_app(fail_first, data_flow_kernel=kernel)(str(tmp_path / "fail"), 1, **named).result()


@WAYS
def test_a_lost_worker_costs_nothing_of_the_retries(
    make_kernel: Any, tmp_path: Path, named: Any
) -> None:
    kernel = make_kernel("engine", retries=1, loss_retries=1)
    app = python_app(fail_and_die, data_flow_kernel=kernel)
    assert app(str(tmp_path / "attempts"), **named).result() == 3


@WAYS
def test_lost_workers_are_covered_by_the_retries_if_nothing_is_said(
    make_kernel: Any, tmp_path: Path, named: Any
) -> None:
    app = python_app(die_first, data_flow_kernel=make_kernel("engine", retries=1))
    assert app(str(tmp_path / "good"), 1, **named).result() == 2
    app = python_app(die_first, data_flow_kernel=make_kernel("engine"))
    with pytest.raises(gristmill.WorkerLostError):
        app(str(tmp_path / "bad"), 1, **named).result()


@KINDS
def test_a_handler_says_what_a_failure_costs(make_kernel: Any, tmp_path: Path, kind: str) -> None:
    seen = []

    def cost(error: BaseException, task: Any) -> float:
        seen.append((str(error), task["id"], task["try_id"], task["fail_count"], task["args"][1]))
        return 0.5

    app = python_app(fail_first, data_flow_kernel=make_kernel(kind, retries=1, retry_handler=cost))
    assert app(str(tmp_path / "good"), 2).result() == 3
    assert seen == [("run 1", 0, 0, 1, 2), ("run 2", 0, 1, 2, 2)]
    with pytest.raises(ValueError, match="run 3"):
        app(str(tmp_path / "bad"), 3).result()


def test_a_handler_may_refuse_another_attempt(make_kernel: Any, tmp_path: Path) -> None:
    kernel = make_kernel("threads", retries=5, retry_handler=lambda error, task: 100)
    app = python_app(fail_first, data_flow_kernel=kernel)
    with pytest.raises(ValueError, match="run 1"):
        app(str(tmp_path / "attempts"), 1).result()


def test_a_handler_that_raises_ends_the_retries_with_what_it_raised(
    make_kernel: Any, tmp_path: Path
) -> None:
    def cost(error: BaseException, task: Any) -> float:
        raise KeyError("handler")

    kernel = make_kernel("threads", retries=5, retry_handler=cost)
    app = python_app(fail_first, data_flow_kernel=kernel)
    future = app(str(tmp_path / "attempts"), 1)
    with pytest.raises(KeyError, match="handler"):
        future.result()
    assert future.task_status() == "failed"


@KINDS
def test_a_failed_dependency_is_not_tried_again(
    make_kernel: Any, tmp_path: Path, kind: str
) -> None:
    kernel = make_kernel(kind, retries=3)
    app = python_app(fail_first, data_flow_kernel=kernel)
    failing = app(str(tmp_path / "attempts"), 9)
    dependant = app(failing, 1)
    assert isinstance(dependant.exception(), DependencyError)
    assert dependant.task_record["try_id"] == 0
    assert runs(tmp_path / "attempts") == 4


class Refusing(ThreadPoolExecutor):
    """An executor that refuses the first submissions."""

    left = 2

    def submit(self, func: Any, /, resource_specification: Any, *args: Any, **named: Any) -> Any:
        """Refuses the first submissions, and accepts later ones."""
        self.left -= 1
        if self.left >= 0:
            raise OSError("busy")
        return super().submit(func, resource_specification, *args, **named)


def test_an_executor_that_does_not_take_a_task_is_a_failure_like_others(make_kernel: Any) -> None:
    kernel = make_kernel("threads", retries=2, executors=[Refusing()])
    assert python_app(abs, data_flow_kernel=kernel)(-1).result() == 1
    kernel = make_kernel("threads", executors=[Refusing()])
    with pytest.raises(OSError, match="busy"):
        python_app(abs, data_flow_kernel=kernel)(-1).result()


def test_the_body_of_a_join_app_is_tried_again_and_what_it_joined_is_not(
    make_kernel: Any, tmp_path: Path
) -> None:
    kernel = make_kernel("threads", retries=1)
    path = tmp_path / "attempts"

    def body(is_bad: bool) -> Any:
        calls.fail_first(str(path), 1)
        part: Future[int] = Future()
        part.set_exception(KeyError("part")) if is_bad else part.set_result(1)
        return part

    app = join_app(body, data_flow_kernel=kernel)
    assert app(False).result() == 1
    assert runs(path) == 2
    assert isinstance(app(True).exception(), JoinError)
    assert runs(path) == 3


def test_the_record_tells_of_the_attempts(make_kernel: Any, tmp_path: Path) -> None:
    kernel = make_kernel("threads", retries=1, garbage_collect=False)
    future = python_app(fail_first, data_flow_kernel=kernel)(str(tmp_path / "attempts"), 9)
    future.exception()
    record = future.task_record
    assert (record["try_id"], record["fail_count"], record["fail_cost"]) == (1, 2, 2)
    assert record["fail_history"] == ["ValueError('run 2')"]
    assert kernel.tasks[0] is record


def _refuse(*_arguments: Any, **_named: Any) -> NoReturn:
    raise RuntimeError("it refuses")


@pytest.mark.parametrize(
    "name", ["__getattribute__", "__repr__", "__str__", "__eq__", "__bool__", "__hash__"]
)
def test_the_failure_of_a_task_is_its_exception_whatever_that_refuses(
    make_kernel: Any, name: str, caplog: pytest.LogCaptureFixture
) -> None:
    kind = type("Refusing", (Exception,), {name: _refuse})

    def fail() -> NoReturn:
        raise kind

    kernel = make_kernel("threads", retries=1)
    with caplog.at_level("INFO", "gristmill"):
        error = python_app(fail, data_flow_kernel=kernel)().exception()
    assert type(error) is kind
