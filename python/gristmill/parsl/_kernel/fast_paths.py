"""Calls that the engine runs alone: it waits for their dependencies, retries them and completes them.

Most calls are of this kind, and cost as much as a task of ``gristmill.Executor``. Calls that need Python between their
steps go through ``graph``: those with files to stage, join and bash apps, a ``retry_handler``, other executors. Calls
whose results are remembered arrive here through ``memo_fast_path``.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from gristmill import _native
from gristmill._errors import GristmillError
from gristmill._weak import WeakBag
from gristmill.parsl._kernel.dependencies import DEEP_DEPENDENCY_RESOLVER
from gristmill.parsl._kernel.engine_futures import EngineFuture
from gristmill.parsl._kernel.executors.engine import GristmillExecutor
from gristmill.parsl._kernel.files import PLAIN_TYPES, is_file
from gristmill.parsl._kernel.memoizer import is_passive

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from gristmill._context.declare import Context
    from gristmill.parsl._kernel.apps import PythonApp
    from gristmill.parsl._kernel.kernel import DataFlowKernel
    from gristmill.parsl._kernel.monitoring.monitor import Watch

    #: Takes the arguments of a call and returns its future. If the call is not plain, returns ``None`` and does
    #: nothing.
    Way = Callable[[tuple[Any, ...], dict[str, Any]], Any]

#: Arguments that ask for something that only the graph can do.
SPECIAL = frozenset(
    {"inputs", "outputs", "stdout", "stderr", "walltime", "parsl_resource_specification"}
)

#: Types that are no files, recognized by one set lookup. Futures of plain calls are the most common other arguments.
_NO_FILES = PLAIN_TYPES | {_native.make_app_future_type(EngineFuture)}


class FastPath:
    """The fast path for one app's plain calls into the engine of one executor."""

    __slots__ = ("_function", "_ledger", "_native", "_watch", "app", "kernel", "label")

    def __init__(
        self,
        app: PythonApp,
        kernel: DataFlowKernel,
        label: str,
        way: _native.AppFastPath,
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
        """Submits a call and returns its ``AppFuture``. If the call is not plain, returns ``None`` and does nothing."""
        if _has_file(args):
            return None
        if kwargs and not (kwargs.keys().isdisjoint(SPECIAL) and not _has_file(kwargs.values())):
            return None
        try:
            future = self._native.submit(self, self._function, args, kwargs or None, self._ledger)
        except (_native.ForeignFutureError, GristmillError):
            # The graph submits the call again, and its failure fails the task instead of raising here.
            return None
        if self._watch is not None:
            self._watch(future, args, kwargs)
        return future


def _has_file(values: Iterable[Any]) -> bool:
    for value in values:  # noqa: SIM110, a generator would cost each call more than the look
        if type(value) not in _NO_FILES and is_file(value):
            return True
    return False


class FastPaths:
    """The fast paths of a kernel.

    :param kernel: the kernel.
    :param is_observed: whether an observer needs each step of each task.
    :param watch: called with each call that takes a fast path.
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
        #: The apps that keep a submit function.
        self._apps: WeakBag[PythonApp] = WeakBag()
        self._ways: dict[tuple[str, bool], _native.AppFastPath] = {}

    def of(self, app: PythonApp) -> Way | None:
        """Returns the submit function for an app's plain calls, or ``None``. The app keeps it for its next call."""
        self._apps.add(app)
        fast_path = self._open(app)
        way: Way | None = None
        if app.cache:
            way = partial(self._kernel.memo_fast_path.call, app, fast_path)
        elif fast_path is not None:
            way = fast_path.submit
        app.kept_way = self._kernel, way
        return way

    def reopen(self) -> None:
        """Makes all apps look up their fast path again, because the executors have changed."""
        # A loop, because other threads and signal handlers may add apps meanwhile.
        while apps := list(self._apps):
            for app in apps:
                self._apps.discard(app)
                app.kept_way = None

    def close(self) -> None:
        """Closes all fast paths, so that every later call goes through the graph."""
        self._is_open = False
        self.reopen()
        self._ways.clear()

    def _open(self, app: PythonApp) -> FastPath | None:
        if not self._is_open or app.join or not app.has_inert_defaults:
            return None
        labels = self._kernel.labels(app.executors)
        if len(labels) != 1:
            return None
        way = self._way(
            labels[0], app.cache and self._kernel.memo_fast_path.follows_ends, app.context
        )
        if way is None:
            return None
        return FastPath(app, self._kernel, labels[0], way, self._watch)

    def _way(self, label: str, tells: bool, context: Context | None) -> _native.AppFastPath | None:
        way = self._ways.get((label, tells)) if context is None else None
        if way is None:
            executor = self._kernel.executors.get(label)
            if not isinstance(executor, GristmillExecutor):
                return None
            way = executor.make_lane(self._kernel.config, tells, context)
            if context is None:
                self._ways[label, tells] = way
        return way
