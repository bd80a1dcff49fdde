"""The arguments of a call are freed with its future, without the garbage collector."""

from __future__ import annotations

import contextlib
import gc
import logging
import threading
import weakref
from collections.abc import Callable, Iterator
from concurrent.futures import CancelledError, Future
from pathlib import Path
from typing import Any

import pytest

from gristmill.parsl import DataFlowKernel, File, bash_app, join_app, python_app

import forks

MakeKernel = Callable[..., DataFlowKernel]


@pytest.fixture(autouse=True)
def no_collector() -> Iterator[None]:
    """Disables the garbage collector and the log, whose records could hold the traceback of a failure."""
    gc.collect()
    gc.disable()
    logging.disable()
    yield
    logging.disable(logging.NOTSET)
    gc.enable()


class Argument:
    """An argument that reports its end. A worker gets a number in its place."""

    def __init__(self) -> None:
        self.gone = threading.Event()
        weakref.finalize(self, self.gone.set)

    def __reduce__(self) -> Any:
        return int, ()


def take(argument: object, *_: object, outputs: Any = ()) -> list[int]:
    for file in outputs:
        Path(file.filepath).touch()
    return [1]


def fail(argument: object) -> None:
    raise ValueError


def command(argument: object) -> str:
    return "true"


def end(futures: list[Future[Any]]) -> None:
    """Waits for a future, whose last reference it has, and reads its outcome in both ways."""
    future = futures.pop()
    try:
        with contextlib.suppress(Exception, CancelledError):
            future.exception()
            future.result()
    finally:
        # The traceback would refer to the future again.
        del future


def gone_with(call: Callable[[Argument], Any]) -> threading.Event:
    """Makes a call and drops its future once that is final; returns an event that is set when the argument is freed."""
    argument = Argument()
    gone, futures = argument.gone, [call(argument)]
    # The traceback refers to the frame of this function too.
    del argument
    end(futures)
    return gone


def retry(error: BaseException, record: Any) -> float:
    """Reads the record, so that it exists from then on."""
    return 1 if record["args"] else 9


@pytest.mark.parametrize("kind", ["threads", "engine"])
@pytest.mark.parametrize("options", [{}, {"retry_handler": retry, "retries": 1}])
@pytest.mark.parametrize(
    "how",
    ["app", "walltime", "failure", "join", "bash", "outputs", "item", "callback", "after another"],
)
def test_arguments_go_with_the_future(
    make_kernel: MakeKernel, tmp_path: Path, kind: str, options: dict[str, Any], how: str
) -> None:
    kernel = make_kernel(kind, **options)
    app = python_app(take, data_flow_kernel=kernel)
    bash = bash_app(command, data_flow_kernel=kernel)
    failing = python_app(fail, data_flow_kernel=kernel)
    joining = join_app(lambda argument: app(argument), data_flow_kernel=kernel)

    def with_callback(argument: Argument) -> Any:
        future = app(argument)
        future.add_done_callback(lambda _: future)
        return future

    calls: dict[str, Callable[[Argument], Any]] = {
        "app": app,
        "walltime": lambda argument: python_app(_slow, data_flow_kernel=kernel)(argument),
        "failure": failing,
        "join": joining,
        "bash": bash,
        "outputs": lambda argument: app(argument, outputs=[File(str(tmp_path / "out"))]).outputs[0],
        "item": lambda argument: app(argument)[0],
        "callback": with_callback,
        "after another": lambda argument: app(argument, app(argument)),
    }
    assert gone_with(calls[how]).wait(60)


def _slow(argument: object, walltime: float = 60) -> None:
    """Does nothing, with a time limit that only the graph handles."""


@pytest.mark.parametrize("kind", ["threads", "engine"])
def test_arguments_of_a_call_whose_argument_failed_go_with_the_future(
    make_kernel: MakeKernel, kind: str
) -> None:
    kernel = make_kernel(kind, retry_handler=lambda error, record: 1)
    failing = python_app(fail, data_flow_kernel=kernel)
    app = python_app(take, data_flow_kernel=kernel)

    def call(argument: Argument) -> Any:
        return app(argument, failing(argument))

    assert gone_with(call).wait(60)


def test_arguments_of_a_cancelled_call_go_with_the_future(make_kernel: MakeKernel) -> None:
    kernel = make_kernel("threads")
    leave = threading.Event()
    waits_for = [python_app(leave.wait, data_flow_kernel=kernel)()]

    def call(argument: Argument) -> Any:
        future = python_app(take, data_flow_kernel=kernel)(argument, waits_for[0])
        assert future.cancel()
        return future

    gone = gone_with(call)
    leave.set()
    # Until it ends it holds a callback for the task.
    waits_for.pop().result()
    assert gone.wait(60)


@pytest.mark.parametrize("kind", ["threads", "engine"])
def test_a_record_has_its_future_while_the_program_holds_it(
    make_kernel: MakeKernel, kind: str
) -> None:
    kernel = make_kernel(kind, retry_handler=retry)
    ended = threading.Event()
    future = python_app(forks.same, data_flow_kernel=kernel)(5)
    future.result()
    record = future.task_record
    kernel.wait_for_current_tasks()
    kernel.cleanup()
    assert record["app_fu"] is record.get("app_fu") is record.app_fu is future
    assert dict(record)["app_fu"] is record.copy()["app_fu"] is dict(record.items())["app_fu"]
    assert future in record.values()
    assert record["args"] == [5]
    assert record["func"] is forks.same
    weakref.finalize(future, ended.set)
    del future
    assert ended.wait(60)
    assert record["app_fu"] is None
    assert record["args"] == [5]
    assert "app_fu" in record


def test_what_a_program_writes_for_the_future_stays(make_kernel: MakeKernel) -> None:
    def handler(error: BaseException, record: Any) -> float:
        record["app_fu"] = "mine"
        return 1

    kernel = make_kernel("threads", retry_handler=handler)
    future = python_app(fail, data_flow_kernel=kernel)(1)
    assert isinstance(future.exception(), ValueError)
    kernel.cleanup()
    assert future.task_record["app_fu"] == "mine"


def test_a_future_of_a_file_outlives_that_of_its_task(
    make_kernel: MakeKernel, tmp_path: Path
) -> None:
    kernel = make_kernel("threads")
    out = python_app(take, data_flow_kernel=kernel)(1, outputs=[File(str(tmp_path / "out"))])
    file, ended = out.outputs[0], threading.Event()
    assert file.result().filepath == str(tmp_path / "out")
    assert file.parent is out
    weakref.finalize(out, ended.set)
    del out
    assert ended.wait(60)
    assert (file.parent, file.cancel(), file.cancelled(), file.running()) == (
        None,
        False,
        False,
        False,
    )
    assert kernel.explain(file) == f"Task {file.tid} has ended."


def test_records_that_the_kernel_is_to_keep_have_their_futures(make_kernel: MakeKernel) -> None:
    kernel = make_kernel("threads", garbage_collect=False)
    number = python_app(take, data_flow_kernel=kernel)(1).tid
    kernel.wait_for_current_tasks()
    assert kernel.tasks[number]["app_fu"].result() == [1]
