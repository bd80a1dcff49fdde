"""Calls that the engine runs all by itself: it waits for what they depend on, retries them and completes them.

Most calls are of this kind, and cost what a task of ``gristmill.Executor`` costs. What needs Python between its steps
takes the way through ``graph``: files to stage, join and bash apps, a ``retry_handler``, other executors. Calls whose
results are remembered come here by way of ``recall``.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from gristmill import _native
from gristmill._errors import GristmillError
from gristmill.parsl.dependencies import DEEP_DEPENDENCY_RESOLVER
from gristmill.parsl.engine_futures import EngineFuture
from gristmill.parsl.executors.engine import GristmillExecutor
from gristmill.parsl.files import PLAIN_TYPES, is_file
from gristmill.parsl.memoizer import is_passive

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from gristmill._context.declare import Context
    from gristmill.parsl.apps import PythonApp
    from gristmill.parsl.kernel import DataFlowKernel
    from gristmill.parsl.monitoring.monitor import Watch

    #: Given the arguments of a call, gives its future; ``None``, and nothing has happened, if the call is not plain.
    Way = Callable[[tuple[Any, ...], dict[str, Any]], Any]

#: Arguments by which a call asks for what only the graph does.
SPECIAL = frozenset(
    {"inputs", "outputs", "stdout", "stderr", "walltime", "parsl_resource_specification"}
)

#: What is no file, known without a look: the futures of plain calls are most of what else is passed.
_NO_FILES = PLAIN_TYPES | {_native.make_app_future_type(EngineFuture)}


class Lane:
    """The way of one app's plain calls into the engine of one executor."""

    __slots__ = ("_function", "_ledger", "_native", "_watch", "app", "kernel", "label")

    def __init__(
        self,
        app: PythonApp,
        kernel: DataFlowKernel,
        label: str,
        way: _native.AppLane,
        watch: Watch | None,
    ) -> None:
        self.app = app
        self.kernel = kernel
        self.label = label
        self._function = app.plain_function
        self._ledger = kernel.ledger
        self._native = way
        self._watch = watch

    def submit(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Submits a call and gives its ``AppFuture``; ``None``, and nothing has happened, if it is not plain."""
        if _has_file(args):
            return None
        if kwargs and not (kwargs.keys().isdisjoint(SPECIAL) and not _has_file(kwargs.values())):
            return None
        try:
            future = self._native.submit(self, self._function, args, kwargs or None, self._ledger)
        except (_native.ForeignFuture, GristmillError):
            # What cannot be submitted fails the task, by way of the graph, and not the call.
            return None
        if self._watch is not None:
            self._watch(future, args, kwargs)
        return future


def _has_file(values: Iterable[Any]) -> bool:
    for value in values:  # noqa: SIM110, a generator would cost each call more than the look
        if type(value) not in _NO_FILES and is_file(value):
            return True
    return False


class Lanes:
    """All lanes of a kernel.

    :param kernel: the kernel.
    :param is_observed: whether somebody wants to know of each step of each task.
    :param watch: told of each call that takes a lane.
    """

    def __init__(
        self, kernel: DataFlowKernel, is_observed: bool, watch: Watch | None = None
    ) -> None:
        config = kernel.config
        self._kernel = kernel
        self._watch = watch
        self._is_open = (
            not is_observed
            and config.retry_handler is None
            and config.garbage_collect
            and kernel.dependency_resolver is DEEP_DEPENDENCY_RESOLVER
            and is_passive(kernel.memoizer)
        )
        self._apps: set[PythonApp] = set()
        self._ways: dict[tuple[str, bool], _native.AppLane] = {}

    def of(self, app: PythonApp) -> Way | None:
        """The way of an app's plain calls, if they have one; the app keeps it for its next call."""
        self._apps.add(app)
        lane = self._open(app)
        way: Way | None = None
        if app.cache:
            way = partial(self._kernel.recall.call, app, lane)
        elif lane is not None:
            way = lane.submit
        app.kept_way = self._kernel, way
        return way

    def reopen(self) -> None:
        """There are other executors now."""
        for app in self._apps:
            app.kept_way = None
        self._apps.clear()

    def close(self) -> None:
        """No call takes a lane any more."""
        self._is_open = False
        self.reopen()
        self._ways.clear()

    def _open(self, app: PythonApp) -> Lane | None:
        if not self._is_open or app.join or not app.has_inert_defaults:
            return None
        labels = self._kernel.labels(app.executors)
        if len(labels) != 1:
            return None
        way = self._way(labels[0], app.cache and self._kernel.recall.follows_ends, app.context)
        if way is None:
            return None
        return Lane(app, self._kernel, labels[0], way, self._watch)

    def _way(self, label: str, tells: bool, context: Context | None) -> _native.AppLane | None:
        way = self._ways.get((label, tells)) if context is None else None
        if way is None:
            executor = self._kernel.executors.get(label)
            if not isinstance(executor, GristmillExecutor):
                return None
            way = executor.make_lane(self._kernel.config, tells, context)
            if context is None:
                self._ways[label, tells] = way
        return way
