"""Pools of processes: the standard library's two, and loky's."""

from __future__ import annotations

import importlib
import multiprocessing
from abc import abstractmethod
from collections.abc import Callable
from concurrent.futures import Executor, Future, ProcessPoolExecutor
from functools import partial
from typing import Any, ClassVar, Literal

from gristmill.bench.borders.hops import TaggedBackend
from gristmill.bench.borders.pools import TaggedPool
from gristmill.bench.dependencies import AfterParents
from gristmill.bench.executors.groups import GroupedExecutor, Initializer
from gristmill.bench.interfaces import Backend

#: How processes are started.
Start = Literal["fork", "spawn", "forkserver"]


class FuturesPool(GroupedExecutor):
    """A pool of ``concurrent.futures``, or one that is built alike."""

    @abstractmethod
    def pool(self, initializer: Initializer | None) -> Any:
        """The pool, whose processes start with its first tasks."""

    def start_workers(self, initializer: Initializer | None) -> Backend:
        """Its processes start with its first tasks."""
        return AfterParents(self.pool(initializer))

    def open_tagged(self) -> TaggedBackend:
        """Its tasks are noted in the program and in its processes; those of groups are not looked at."""
        return super().open_tagged() if self.groups else TaggedPool(self.pool(None))


class Processes(FuturesPool):
    """``concurrent.futures.ProcessPoolExecutor``."""

    start: Start = "forkserver"

    def pool(self, initializer: Initializer | None) -> ProcessPoolExecutor:
        """The pool."""
        context = multiprocessing.get_context(self.start)
        return ProcessPoolExecutor(self.workers, mp_context=context, initializer=initializer)


class Pool(GroupedExecutor):
    """``multiprocessing.Pool``. A task whose process is killed never ends: say ``--run.timeout``."""

    start: Start = "forkserver"

    def start_workers(self, initializer: Initializer | None) -> Backend:
        """Starts its processes."""
        return AfterParents(PoolExecutor(self.workers, self.start, initializer))


class PoolExecutor(Executor):
    """A ``multiprocessing.Pool`` as an executor."""

    def __init__(self, workers: int, start: str | None, initializer: Initializer | None) -> None:
        #: The pool itself.
        self.pool = multiprocessing.get_context(start).Pool(workers, initializer)

    def submit(self, function: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        """Applies it in one of the processes."""
        future: Future[Any] = Future()
        # The pool cannot take a task back.
        future.set_running_or_notify_cancel()
        self.pool.apply_async(function, args, kwargs, future.set_result, future.set_exception)
        return future

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """Ends its processes; what they have not done by then is lost."""
        self.pool.terminate()
        self.pool.join()


class Loky(FuturesPool):
    """``loky.ProcessPoolExecutor``: joblib's."""

    needs: ClassVar[tuple[str, ...]] = ("loky",)

    def pool(self, initializer: Initializer | None) -> Any:
        """The pool."""
        loky = importlib.import_module("loky")
        pool = loky.ProcessPoolExecutor(self.workers, initializer=initializer)
        pool.shutdown = partial(_shut_down, pool)
        return pool


def _shut_down(loky: Any, wait: bool = True, *, cancel_futures: bool = False) -> None:
    """Shuts a pool down as ``concurrent.futures`` does: loky waits for all tasks, or kills those that run."""
    if cancel_futures:
        for item in list(loky._pending_work_items.values()):
            item.future.cancel()
    type(loky).shutdown(loky, wait)
