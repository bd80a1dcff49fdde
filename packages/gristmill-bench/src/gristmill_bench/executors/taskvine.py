"""TaskVine: its manager, with workers on this machine that its factory starts.

TaskVine is available from conda only. This module was run with one built from source (cctools f4e3b63, August 2026).
"""

from __future__ import annotations

import importlib
import os
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from functools import partial
from importlib.util import find_spec
from math import ceil
from time import monotonic
from typing import Annotated, Any, ClassVar, Literal

from pydantic import Field, model_validator

from gristmill_bench.dependencies import AfterParents
from gristmill_bench.errors import BenchError
from gristmill_bench.executors.base import ExecutorPlugin, TaskTimeout, put_first, scratch
from gristmill_bench.executors.vine import Held, Manager, call
from gristmill_bench.interfaces import Backend
from gristmill_bench.within import Source

#: Repetitions of a task that stand for no limit.
_WITHOUT_END = 2**31
#: Seconds that workers may take to connect.
_START_MAX_S = 60


class TaskVine(ExecutorPlugin):
    """``ndcctools.taskvine``: its manager, and local workers of one core each; from conda only."""

    ways: ClassVar[tuple[dict[str, Any], ...]] = ({}, {"calls": "direct"})
    without_groups: ClassVar[str] = "what its workers run first is a task"

    #: Port of the manager; any free one if it is 0.
    port: Annotated[int, Field(ge=0, le=65_535)] = 0
    #: Execution of a call: ``tasks`` in an interpreter of its own, ``fork`` in a child of a worker's library,
    #: ``direct`` in the library itself.
    calls: Literal["tasks", "fork", "direct"] = "tasks"
    #: Repetitions of a call whose worker was lost; no limit, as in TaskVine, if not given.
    loss_retries: Annotated[int, Field(ge=1)] | None = None
    #: Limit of a task, rounded up to whole seconds; TaskVine limits only processes.
    task_timeout: TaskTimeout = None

    @model_validator(mode="after")
    def _make_sense(self) -> TaskVine:
        if self.task_timeout is not None and self.calls != "tasks":
            raise ValueError(
                "TaskVine ends tasks, and no calls of a library: calls, or task_timeout"
            )
        return self

    @classmethod
    def missing(cls) -> str | None:
        """Returns the command that installs it if it is missing; pip has no such package and does not see conda's."""
        return None if find_spec("ndcctools") else "conda install -c conda-forge ndcctools"

    def open(self) -> Backend:
        """Starts manager, factory and workers, and waits for the workers.

        Raises ``BenchError`` if they do not come.
        """
        manager = Manager(partial(_started, self), self.workers)
        if self.calls == "tasks":
            return AfterParents(_Calls(manager, partial(_task, self)))
        try:
            return _Invocations(self, manager)
        except BaseException:
            manager.shutdown()
            raise

    def limited(self, seconds: float | None) -> ExecutorPlugin:
        """Returns a copy with that limit for each task if calls are tasks, and itself otherwise."""
        return super().limited(seconds) if self.calls == "tasks" else self

    def loss_repeats(self) -> int:
        """Returns ``loss_retries``, or a number that stands for no limit."""
        return _WITHOUT_END if self.loss_retries is None else self.loss_retries


class _Calls:
    """Backend whose manager runs calls as tasks of one kind.

    :param make: makes such a task of a function and its arguments.
    """

    def __init__(self, manager: Manager, make: Callable[..., Any]) -> None:
        self._manager = manager
        self._make = make

    def submit(self, function: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        """Submits a call."""
        return self._manager.submit(partial(self._make, function, args, kwargs))

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """Ends the manager once all tasks have ended, or at once if they are cancelled."""
        self._manager.shutdown(cancel=cancel_futures)


class _Invocations(AfterParents):
    """Calls of a library, which stays in each worker and keeps what they share."""

    def __init__(
        self,
        plugin: TaskVine,
        manager: Manager,
        held: Held | None = None,
        setup: tuple[Any, ...] = (),
    ) -> None:
        key = "plain" if held is None else held.key
        context = None if held is None else [held.keep, list(setup), {}]
        manager.run(partial(_install, plugin, key, context)).result()
        super().__init__(_Calls(manager, partial(_invocation, plugin, key)))
        self._plugin = plugin
        self._manager = manager

    def within(
        self, setup: Callable[..., Any], arguments: tuple[Any, ...]
    ) -> tuple[Backend, Source]:
        """Returns a backend of calls of another library, whose context is the setup, and the source of its value."""
        held = Held()
        return _Invocations(self._plugin, self._manager, held, (setup, arguments)), held


@contextmanager
def _started(plugin: TaskVine) -> Iterator[Any]:
    """Starts a manager, and a factory that keeps the workers on this machine; removes their logs at the end."""
    # Workers run the command named python3.
    put_first("PATH", os.path.dirname(sys.executable))
    vine = importlib.import_module("ndcctools.taskvine")
    with scratch() as folder, vine.Manager(port=plugin.port, run_info_path=folder) as manager:
        # The manager leaves its port in these variables for all that it starts, and workers cannot use the same port.
        for limit in ("TCP_LOW_PORT", "TCP_HIGH_PORT"):
            os.environ.pop(limit, None)
        factory = vine.Factory(batch_type="local", manager=manager)
        factory.min_workers = factory.max_workers = plugin.workers
        factory.cores = plugin.told_threads() or 1
        with factory:
            try:
                _wait_for_workers(manager, plugin.workers)
                yield manager
            finally:
                # Workers without a factory wait for their libraries, and libraries wait for their workers.
                factory.min_workers = factory.max_workers = 0
                manager.workers_shutdown(0)


def _wait_for_workers(manager: Any, workers: int) -> None:
    """Waits until the workers are connected; the manager accepts them only while it waits."""
    begun = monotonic()
    while (there := manager.stats.workers_connected) < workers:
        if monotonic() - begun > _START_MAX_S:
            raise BenchError(
                f"TaskVine's factory has started {there} of {workers} workers in {_START_MAX_S} s:"
                " run vine_worker by hand to see why"
            )
        manager.wait(1)


def _install(plugin: TaskVine, name: str, context: list[Any] | None, manager: Any) -> None:
    """Has each worker start a library."""
    library = manager.create_library_from_functions(
        name, call, add_env=False, exec_mode=plugin.calls, library_context_info=context
    )
    library.set_cores(plugin.told_threads() or 1)
    library.set_function_slots(1)
    manager.install_library(library)


def _task(
    plugin: TaskVine,
    function: Callable[..., Any],
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
) -> Any:
    """Makes a task that calls the function in an interpreter of its own."""
    task = importlib.import_module("ndcctools.taskvine").PythonTask(call, function, args, kwargs)
    if plugin.task_timeout is not None:
        task.set_time_max(ceil(plugin.task_timeout))
    return _repeated(plugin, task)


def _invocation(
    plugin: TaskVine,
    library: str,
    function: Callable[..., Any],
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
) -> Any:
    """Makes a call of a library."""
    vine = importlib.import_module("ndcctools.taskvine")
    return _repeated(plugin, vine.FunctionCall(library, call.__name__, function, args, kwargs))


def _repeated(plugin: TaskVine, task: Any) -> Any:
    """Sets the chosen number of repetitions of a task."""
    if plugin.loss_retries is not None:
        task.set_retries(plugin.loss_retries)
    return task
