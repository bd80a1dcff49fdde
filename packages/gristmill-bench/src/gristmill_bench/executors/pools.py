"""Pools of processes: the standard library's two, and loky's."""

from __future__ import annotations

import importlib
import multiprocessing
from abc import abstractmethod
from collections.abc import Callable, Iterable
from concurrent.futures import Executor, Future, ProcessPoolExecutor
from functools import partial
from operator import methodcaller
from typing import Any, ClassVar, Literal

from gristmill_bench.borders.hops import TimedBackend
from gristmill_bench.borders.pools import TimedPool
from gristmill_bench.dependencies import AfterParents
from gristmill_bench.executors.bare import Bare, BareExecutor
from gristmill_bench.executors.groups import GroupedExecutor, Initializer
from gristmill_bench.interfaces import Backend

#: Start method of the processes.
Start = Literal["fork", "spawn", "forkserver"]


class FuturesPool(GroupedExecutor):
    """A pool of ``concurrent.futures``, or one that is built alike."""

    @abstractmethod
    def pool(self, initializer: Initializer | None) -> Any:
        """Makes the pool, whose processes start with its first tasks."""

    def start_workers(self, initializer: Initializer | None) -> Backend:
        """Makes the backend of the pool, whose processes start with its first tasks."""
        return AfterParents(self.pool(initializer))

    def open_timed(self) -> TimedBackend:
        """Starts the pool with timestamps of its tasks in the program and in its processes.

        Raises ``BenchError`` if the workers are in groups.
        """
        return super().open_timed() if self.groups else TimedPool(self.pool(None))

    def open_bare(self) -> Bare:
        """Makes the pool. Raises ``BenchError`` if the workers are in groups."""
        return super().open_bare() if self.groups else BareExecutor(self.pool(None))


class Processes(FuturesPool):
    """``concurrent.futures.ProcessPoolExecutor``."""

    start: Start = "forkserver"

    def pool(self, initializer: Initializer | None) -> ProcessPoolExecutor:
        """Makes the pool."""
        context = multiprocessing.get_context(self.start)
        return ProcessPoolExecutor(self.workers, mp_context=context, initializer=initializer)


class Pool(GroupedExecutor):
    """``multiprocessing.Pool``. A task whose process is killed never ends: set ``--run.timeout``."""

    start: Start = "forkserver"

    def start_workers(self, initializer: Initializer | None) -> Backend:
        """Starts the processes."""
        return AfterParents(PoolExecutor(self.workers, self.start, initializer))

    def open_bare(self) -> Bare:
        """Starts the processes. Raises ``BenchError`` if they are in groups."""
        return super().open_bare() if self.groups else BarePool(self.workers, self.start)


class PoolExecutor(Executor):
    """A ``multiprocessing.Pool`` as an executor."""

    def __init__(self, workers: int, start: str | None, initializer: Initializer | None) -> None:
        #: The pool itself.
        self.pool = multiprocessing.get_context(start).Pool(workers, initializer)

    def submit(self, function: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        """Calls a function in one of the processes."""
        future: Future[Any] = Future()
        # The pool cannot cancel a task.
        future.set_running_or_notify_cancel()
        self.pool.apply_async(function, args, kwargs, future.set_result, future.set_exception)
        return future

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """Ends the processes; unfinished tasks are lost."""
        self.pool.terminate()
        self.pool.join()


class BarePool(Bare):
    """A ``multiprocessing.Pool``: ``apply_async`` for one task, ``map`` for many."""

    def __init__(self, workers: int, start: str) -> None:
        self._executor = PoolExecutor(workers, start, None)
        #: The pool itself.
        self.pool = self._executor.pool
        apply = self.pool.apply_async
        self.submit = lambda function, *arguments: apply(function, arguments)
        self.result = methodcaller("get")

    def close(self) -> None:
        """Ends the processes; unfinished tasks are lost."""
        self._executor.shutdown()

    def collect(self, futures: Iterable[Any]) -> list[Any]:
        """Waits for all results."""
        return [future.get() for future in futures]

    def map(self, function: Callable[..., Any], items: range, chunk: int | None) -> list[Any]:
        """Maps in chunks."""
        return self.pool.map(function, items, chunk)


class Loky(FuturesPool):
    """``loky.ProcessPoolExecutor``, the pool of joblib."""

    needs: ClassVar[tuple[str, ...]] = ("loky",)

    def pool(self, initializer: Initializer | None) -> Any:
        """Makes the pool."""
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
