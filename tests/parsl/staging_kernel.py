"""A kernel that runs each app at once in the calling thread, with only the parts that staging needs."""

from __future__ import annotations

import sys
import types
from collections.abc import Callable
from concurrent.futures import Future
from types import SimpleNamespace
from typing import Any

import cloudpickle
import pytest

from gristmill.parsl.app.futures import DataFuture
from gristmill.parsl.data_provider.data_manager import DataManager


class StandInKernel:
    """A kernel with one executor, ``cluster``. It records the label and the name of each called app."""

    def __init__(self, working_dir: Any, storage_access: Any = None) -> None:
        self.executors = {
            "cluster": SimpleNamespace(working_dir=working_dir, storage_access=storage_access),
            "_parsl_internal": SimpleNamespace(),
        }
        self.called: list[tuple[str, str]] = []
        self.data_manager = DataManager(self)

    def run(self, function: Callable[..., Any], *args: Any) -> Any:
        """Calls a function as an app would be: its files are staged in, and both are pickled as for a worker."""
        staged = []
        for value in args:
            value, function = self.data_manager.optionally_stage_in(value, function, "cluster")
            staged.append(value.result() if isinstance(value, Future) else value)
        function, staged = cloudpickle.loads(cloudpickle.dumps((function, staged)))
        return function(*staged)


def kernel_of(
    monkeypatch: pytest.MonkeyPatch, working_dir: Any, storage_access: Any = None
) -> StandInKernel:
    """Makes a kernel, and lets apps run on it."""
    kernel = StandInKernel(working_dir, storage_access)

    def python_app(*, executors: list[str], data_flow_kernel: StandInKernel) -> Any:
        return lambda function: _app(kernel, data_flow_kernel, executors, function)

    apps = types.ModuleType("gristmill.parsl._kernel.apps")
    apps.python_app = python_app  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, apps.__name__, apps)
    return kernel


def _app(kernel: StandInKernel, given: object, executors: list[str], function: Any) -> Any:
    assert given is kernel

    def call(*args: Any, parent_fut: Future[Any] | None, **kwargs: Any) -> Any:
        assert kwargs["_parsl_staging_inhibit"], (
            "the task that stages a file is not to be staged itself"
        )
        kernel.called.append((*executors, function.__name__))
        future: Any = Future()
        future.outputs = [DataFuture(future, file, tid=7) for file in kwargs.get("outputs", ())]

        def run(_parent: object = None) -> None:
            sent = cloudpickle.loads(cloudpickle.dumps((function, args, kwargs)))
            try:
                future.set_result(sent[0](*sent[1], **sent[2]))
            except Exception as failure:
                future.set_exception(failure)

        if parent_fut is None:
            run()
        else:
            parent_fut.add_done_callback(run)
        return future

    return call
