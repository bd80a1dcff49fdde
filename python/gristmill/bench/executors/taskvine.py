"""TaskVine: its manager, with workers of this machine that its factory starts.

It comes by conda only. What is here was run with one that was built of its sources (cctools f4e3b63, August 2026).
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

from gristmill.bench.dependencies import AfterParents
from gristmill.bench.errors import BenchError
from gristmill.bench.executors.base import ExecutorPlugin, TaskTimeout, put_first, scratch
from gristmill.bench.executors.vine import Held, Manager, call
from gristmill.bench.interfaces import Backend
from gristmill.bench.within import Source

#: Of a task whose workers may be lost without end.
_WITHOUT_END = 2**31
#: How long its workers may take to come.
_START_MAX_S = 60


class TaskVine(ExecutorPlugin):
    """``ndcctools.taskvine``: its manager, and local workers of one core each; by conda only."""

    ways: ClassVar[tuple[dict[str, Any], ...]] = ({}, {"calls": "direct"})
    without_groups: ClassVar[str] = "what its workers run first is a task"

    #: The port of its manager; any free one if it is 0.
    port: Annotated[int, Field(ge=0, le=65_535)] = 0
    #: What runs a call: an interpreter of its own, or the library of a worker, in a child of that or itself.
    calls: Literal["tasks", "fork", "direct"] = "tasks"
    #: Repetitions of a call whose worker was lost; without end, as TaskVine has it, if not given.
    loss_retries: Annotated[int, Field(ge=1)] | None = None
    #: Rounded up to whole seconds; TaskVine knows a limit of processes.
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
        """Why it cannot be used on this machine: it is in no registry of pip's, nor known to pip where conda put it."""
        return None if find_spec("ndcctools") else "conda install -c conda-forge ndcctools"

    def open(self) -> Backend:
        """Starts manager and factory, and so the workers; waits for these.

        ``BenchError``: they do not come.
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
        """Itself with that time for each task, where calls are tasks."""
        return super().limited(seconds) if self.calls == "tasks" else self

    def loss_repeats(self) -> int:
        """As often as it is told to."""
        return _WITHOUT_END if self.loss_retries is None else self.loss_retries


class _Calls:
    """Has a manager run calls, as tasks of one kind.

    :param make: of a function and its arguments, such a task.
    """

    def __init__(self, manager: Manager, make: Callable[..., Any]) -> None:
        self._manager = manager
        self._make = make

    def submit(self, function: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        """Submits a call."""
        return self._manager.submit(partial(self._make, function, args, kwargs))

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """Ends the manager once all tasks have ended, or at once."""
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
        """Calls of a library of their own, whose context is what is set up."""
        held = Held()
        return _Invocations(self._plugin, self._manager, held, (setup, arguments)), held


@contextmanager
def _started(plugin: TaskVine) -> Iterator[Any]:
    """A manager, and a factory that keeps so many workers on this machine; their logs end with them."""
    # Workers run what is called python3.
    put_first("PATH", os.path.dirname(sys.executable))
    vine = importlib.import_module("ndcctools.taskvine")
    with scratch() as folder, vine.Manager(port=plugin.port, run_info_path=folder) as manager:
        # It leaves its port there, for all that it starts; workers cannot have the same one for themselves.
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
                # Those whose factory is gone wait for their libraries, and these for them.
                factory.min_workers = factory.max_workers = 0
                manager.workers_shutdown(0)


def _wait_for_workers(manager: Any, workers: int) -> None:
    """Has the manager wait until so many workers are there: it lets them in only while it waits."""
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
    """A call that is an interpreter of its own."""
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
    """A call of a library."""
    vine = importlib.import_module("ndcctools.taskvine")
    return _repeated(plugin, vine.FunctionCall(library, call.__name__, function, args, kwargs))


def _repeated(plugin: TaskVine, task: Any) -> Any:
    """A task that is repeated as often as was chosen."""
    if plugin.loss_retries is not None:
        task.set_retries(plugin.loss_retries)
    return task
