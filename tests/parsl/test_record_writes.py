"""Changes that a program's plug-ins make in a task's record decide about the next attempt, and never lose the task."""

from __future__ import annotations

import threading
from concurrent.futures import Future
from pathlib import Path
from typing import Any

import pytest

from gristmill.parsl import (
    Config,
    DataFlowKernel,
    GristmillExecutor,
    ThreadPoolExecutor,
    python_app,
)
from gristmill.parsl.dataflow.errors import DependencyError
from gristmill.parsl.dataflow.memoization import Memoizer
from gristmill.parsl.dataflow.states import States

from attempts import fail_first_limited


def where(fails_in: str = "small") -> str:
    """Returns the name of the pool that it runs in; fails in one of them."""
    name = threading.current_thread().name.partition("-")[0]
    if name == fails_in:
        raise MemoryError(f"too {name}")
    return name


def show(*args: Any, **named: Any) -> Any:
    """Returns its arguments, or fails if told to."""
    if args[:1] == ("fail",):
        raise ValueError("told to")
    return list(args), named


@pytest.fixture
def pools(tmp_path: Path) -> Any:
    """Yields a function that makes kernels with two thread pools and a retry handler."""
    made = []

    def make(handler: Any, **options: Any) -> DataFlowKernel:
        both = [
            ThreadPoolExecutor(label=one, max_threads=1, thread_name_prefix=f"{one}-")
            for one in ("small", "large")
        ]
        options = {"executors": both, "retries": 2, **options}
        config = Config(
            retry_handler=handler,
            run_dir=str(tmp_path / "runs"),
            initialize_logging=False,
            **options,
        )
        made.append(DataFlowKernel(config))
        return made[-1]

    yield make
    for kernel in made:
        kernel.cleanup()


def writing(**values: Any) -> Any:
    """Returns a retry handler that writes these values into the record."""

    def handler(error: BaseException, record: Any) -> float:
        record.update(values)
        return 1

    return handler


def test_a_handler_sends_a_task_to_another_executor(pools: Any) -> None:
    kernel = pools(writing(executor="large"))
    app = python_app(where, data_flow_kernel=kernel, executors=["small"])
    futures = [app() for _ in range(20)]
    assert [future.result() for future in futures] == ["large"] * 20
    assert kernel.task_state_counts[States.exec_done] == 20
    assert kernel._graph.task_states.outstanding == {"small": 0, "large": 0}


@pytest.mark.parametrize("label", ["nowhere", None, ["small"]])
def test_an_executor_that_there_is_not_fails_the_task_and_is_named(pools: Any, label: Any) -> None:
    kernel = pools(writing(executor=label))
    future = python_app(where, data_flow_kernel=kernel, executors=["small"])()
    with pytest.raises(ValueError, match=r"invalid executor.*small, large"):
        future.result()
    assert future.task_status() == "failed"
    assert set(kernel._graph.task_states.outstanding.values()) == {0}
    assert python_app(where, data_flow_kernel=kernel, executors=["large"])().result() == "large"


def test_a_task_may_come_back_from_an_executor_that_there_is_not(pools: Any) -> None:
    labels = iter(["nowhere", "large"])

    def handler(error: BaseException, record: Any) -> float:
        record["executor"] = next(labels)
        return 1

    kernel = pools(handler)
    assert python_app(where, data_flow_kernel=kernel, executors=["small"])().result() == "large"


def test_the_next_attempt_has_the_function_and_the_arguments_that_the_handler_wrote(
    pools: Any,
) -> None:
    kernel = pools(writing(func=show, args=["other"], kwargs={"more": 1}))
    app = python_app(show, data_flow_kernel=kernel)
    assert app("fail").result() == (["other"], {"more": 1})


def test_arguments_changed_in_place_count(pools: Any) -> None:
    def handler(error: BaseException, record: Any) -> float:
        record["args"][0] = "go"
        record["kwargs"]["option"] = 2
        return 1

    app = python_app(show, data_flow_kernel=pools(handler))
    assert app("fail", option=1).result() == (["go"], {"option": 2})


def test_futures_among_changed_arguments_are_waited_for(pools: Any) -> None:
    late: Future[int] = Future()
    began = threading.Event()

    def handler(error: BaseException, record: Any) -> float:
        record["args"] = ["with", late]
        began.set()
        return 1

    future = python_app(show, data_flow_kernel=pools(handler))("fail")
    began.wait()
    late.set_result(5)
    assert future.result() == (["with", 5], {})


def test_a_changed_argument_that_failed_fails_the_task(pools: Any) -> None:
    failed: Future[int] = Future()
    failed.set_exception(KeyError("part"))
    future = python_app(show, data_flow_kernel=pools(writing(args=[failed])))("fail")
    with pytest.raises(DependencyError):
        future.result()
    assert future.task_status() == "dep_fail"


def test_a_changed_resource_specification_is_that_of_the_next_attempt(pools: Any) -> None:
    kernel = pools(writing(resource_specification={"priority": -1}))
    future = python_app(show, data_flow_kernel=kernel)("fail")
    with pytest.raises(Exception, match="threads take no resource specification"):
        future.result()


def test_a_handler_may_set_the_cost_so_far(pools: Any) -> None:
    seen = []

    def handler(error: BaseException, record: Any) -> float:
        seen.append(record["fail_cost"])
        record["fail_cost"] = 0
        return 1 if len(seen) < 5 else 9

    with pytest.raises(ValueError, match="told to"):
        python_app(show, data_flow_kernel=pools(handler, retries=1))("fail").result()
    assert seen == [0, 1, 1, 1, 1]


@pytest.mark.parametrize(
    "values",
    [
        {"status": States.failed},
        {"status": None},
        {"app_fu": None},
        {"exec_fu": Future()},
        {"id": 10**9},
        {"dfk": None},
        {"from_memo": True},
        {"fail_count": 7, "try_id": 7, "fail_history": []},
        {"task_launch_lock": None, "join_lock": None},
        {"time_invoked": None, "try_time_launched": None, "try_time_returned": None},
    ],
    ids=lambda values: "-".join(values),
)
def test_what_means_nothing_to_the_next_attempt_harms_nothing(pools: Any, values: Any) -> None:
    def handler(error: BaseException, record: Any) -> float:
        record.update(values, args=["go"])
        return 1

    kernel = pools(handler)
    future = python_app(show, data_flow_kernel=kernel)("fail")
    assert future.result() == (["go"], {})
    assert kernel.task_state_counts[States.exec_done] == 1
    assert sum(kernel.task_state_counts.values()) == 1
    kernel.wait_for_current_tasks()


@pytest.mark.parametrize(
    "key", ["func", "args", "kwargs", "executor", "depends", "memoize", "join"]
)
def test_a_handler_that_deletes_keys_loses_no_future(pools: Any, key: str) -> None:
    def handler(error: BaseException, record: Any) -> float:
        del record[key]
        return 1

    future = python_app(show, data_flow_kernel=pools(handler))("fail")
    assert isinstance(future.exception(), (KeyError, ValueError))


def test_a_handler_that_empties_the_record_loses_no_future(pools: Any) -> None:
    def handler(error: BaseException, record: Any) -> float:
        record.clear()
        return 1

    kernel = pools(handler)
    assert python_app(show, data_flow_kernel=kernel)("fail").exception() is not None
    kernel.wait_for_current_tasks()


@pytest.mark.parametrize("cost", [None, "much", float("nan"), 1j])
def test_a_cost_that_is_no_number_ends_the_task(pools: Any, cost: Any) -> None:
    kernel = pools(lambda error, record: cost)
    assert python_app(show, data_flow_kernel=kernel)("fail").exception() is not None


@pytest.mark.parametrize("kind", [SystemExit, GeneratorExit])
def test_whatever_a_handler_raises_ends_the_task_and_no_other(pools: Any, kind: Any) -> None:
    def handler(error: BaseException, record: Any) -> float:
        raise kind("handler")

    app = python_app(show, data_flow_kernel=pools(handler))
    assert isinstance(app("fail").exception(), kind)
    assert app(1).result() == ([1], {})


class Meddling(Memoizer):
    """A memoizer that writes into the record in one of its methods."""

    def __init__(self, place: str, values: Any) -> None:
        self.place = place
        self.values = values

    def start(self, *, run_dir: str, config_run_dir: str) -> None:
        """Does nothing."""

    def _meddle(self, place: str, task: Any) -> None:
        if place == self.place:
            if isinstance(self.values, BaseException):
                raise self.values
            task.update(self.values)

    def check_memo(self, task: Any) -> Any:
        """Returns no result, or the result that it was given."""
        self._meddle("check", task)
        return self.values if self.place == "give" else None

    def update_memo_result(self, task: Any, r: Any) -> None:
        """Remembers no result."""
        self._meddle("result", task)

    def update_memo_exception(self, task: Any, e: BaseException) -> None:
        """Remembers no error."""
        self._meddle("exception", task)

    def close(self) -> None:
        """Does nothing."""


def test_a_memoizer_changes_what_is_about_to_run(pools: Any) -> None:
    kernel = pools(None, memoizer=Meddling("check", {"executor": "large", "args": ["b"]}))
    app = python_app(where, data_flow_kernel=kernel, executors=["small"])
    assert app("a").result() == "large"


@pytest.mark.parametrize("given", [1, "future", object()])
def test_a_memoizer_that_gives_no_future_fails_the_task(pools: Any, given: Any) -> None:
    kernel = pools(None, memoizer=Meddling("give", given))
    with pytest.raises(TypeError, match="check_memo of the memoizer returned no Future"):
        python_app(show, data_flow_kernel=kernel)(1).result()


@pytest.mark.parametrize("place", ["check", "result", "exception"])
@pytest.mark.parametrize("kind", [ValueError, SystemExit])
def test_whatever_a_memoizer_raises_every_future_is_final(
    pools: Any, place: str, kind: Any
) -> None:
    kernel = pools(None, retries=0, memoizer=Meddling(place, kind("memoizer")))
    app = python_app(show, data_flow_kernel=kernel)
    good, bad = app(1), app("fail")
    assert isinstance(good.exception(), kind) == (place != "exception")
    assert bad.exception() is not None
    kernel.wait_for_current_tasks()


class Shy(ThreadPoolExecutor):
    """An executor that returns no futures."""

    def submit(self, func: Any, /, resource_specification: Any, *args: Any, **named: Any) -> Any:
        """Drops the task."""


def test_an_executor_that_gives_no_future_fails_the_task(pools: Any) -> None:
    kernel = pools(None, executors=[Shy()], retries=0)
    with pytest.raises(TypeError, match="submit of executor threads returned no Future"):
        python_app(show, data_flow_kernel=kernel)(1).result()


@pytest.mark.parametrize("kind", [SystemExit, GeneratorExit])
def test_a_callback_that_raises_stops_no_other(pools: Any, kind: Any) -> None:
    def leave(_future: Any) -> None:
        raise kind("callback")

    app = python_app(show, data_flow_kernel=pools(None))
    waiting: Future[int] = Future()
    future = app(waiting, inputs=[1])
    called = threading.Event()
    future.add_done_callback(leave)
    future.add_done_callback(lambda _: called.set())
    after = app(future)
    waiting.set_result(1)
    called.wait()
    assert after.result()
    assert app(2).result() == ([2], {})


def test_a_time_limit_goes_with_a_task_from_the_engine_to_threads(tmp_path: Path) -> None:
    executors = [
        GristmillExecutor(label="engine", max_workers=1),
        ThreadPoolExecutor(label="threads"),
    ]
    config = Config(
        executors=executors,
        retries=1,
        retry_handler=writing(executor="threads"),
        run_dir=str(tmp_path / "runs"),
        initialize_logging=False,
    )
    with DataFlowKernel(config) as kernel:
        app = python_app(fail_first_limited, data_flow_kernel=kernel, executors=["engine"])
        assert app(str(tmp_path / "first"), 1).result() == 2


def test_a_step_of_the_kernel_that_fails_ends_the_task(
    pools: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    kernel = pools(None)

    def broken(*_arguments: Any) -> None:
        raise RuntimeError("broken bookkeeping")

    monkeypatch.setattr(kernel._graph, "_attempt_ended", broken)
    with pytest.raises(RuntimeError, match="broken bookkeeping"):
        python_app(show, data_flow_kernel=kernel)(1).result()
