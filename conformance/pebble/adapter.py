"""Pytest plugin that replaces ``pebble.ProcessPool`` by our executor.

Pebble's pool has its own interface for features of our executor: a timeout for each call, stopping running calls, and a
map whose iterator continues after errors. Its futures stop a running call when they are cancelled.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import CancelledError, Future
from concurrent.futures.process import BrokenProcessPool
from types import SimpleNamespace
from typing import Any

import pebble
import pebble.pool.process
import pytest
from observed import ObservedExecutor

import gristmill

#: Error of a task whose exception cannot be made again: Pebble breaks the pool instead
#: (docs/explanation/error-reports.md).
_UNREADABLE = (BrokenProcessPool, gristmill.RemoteError)


class ProcessFuture(Future[Any]):
    """Future with Pebble's interface for a call of our executor."""

    def __init__(self, own: Any) -> None:
        super().__init__()
        self._own = own
        own.add_done_callback(self._end)

    def _end(self, own: Any) -> None:
        if own.cancelled():
            super().cancel()
            self.set_running_or_notify_cancel()
            return
        error = own.exception()
        if isinstance(error, gristmill.TaskTimeoutError):
            error = TimeoutError("Task timeout")
        elif isinstance(error, gristmill.WorkerLostError):
            error = pebble.ProcessExpired("Abnormal termination", code=-9)
        if error is not None:
            self.set_exception(error)
        else:
            self.set_result(own.result())

    def cancel(self) -> bool:
        """Cancels the call, even if it is running. Like Pebble, it does not spare the worker of a running call."""
        return bool(self._own.cancel(running=True, grace=0))

    def running(self) -> bool:
        """Returns whether a worker has the call."""
        return bool(self._own.running())


class MapFuture(Future[Any]):
    """Future of a map, which cancels all of its calls."""

    def __init__(self, futures: list[ProcessFuture]) -> None:
        super().__init__()
        self._futures = futures
        self.set_result(Results(futures))

    def cancel(self) -> bool:
        """Cancels all calls of the map."""
        for future in self._futures:
            future.cancel()
        return True


class Results:
    """Results of a map, in order. An error of one call does not end the iteration."""

    def __init__(self, futures: list[ProcessFuture]) -> None:
        self._futures = iter(futures)

    def __iter__(self) -> Iterator[Any]:
        return self

    def __next__(self) -> Any:
        return next(self._futures).result()

    next = __next__


class ProcessPool:
    """Pool with Pebble's interface on our executor."""

    def __init__(
        self,
        max_workers: int = 2,
        max_tasks: int = 0,
        initializer: Any = None,
        initargs: Iterable[Any] = (),
        context: Any = None,
    ) -> None:
        options: dict[str, Any] = {"max_tasks_per_child": max_tasks or None}
        self._executor = ObservedExecutor(max_workers, initializer, tuple(initargs), **options)
        self._futures: set[ProcessFuture] = set()
        self._is_closed = False
        self._has_begun = False

    def __enter__(self) -> ProcessPool:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
        self.join()

    @property
    def active(self) -> bool:
        """True if the pool accepts calls or has unfinished ones. Reading it starts the workers."""
        if not self._executor.stats().submitted and not self._is_closed:
            self._executor.submit(int)
        return not self._is_closed or any(not future.done() for future in self._futures)

    def submit(self, function: Any, timeout: float | None, /, *args: Any, **named: Any) -> Any:
        """Runs a call for at most ``timeout`` seconds. Returns its future."""
        if self._is_closed:
            raise RuntimeError("The Pool is not active")
        options = self._executor.options(timeout=timeout, grace=0)
        try:
            own = options.submit(function, *args, **named)
        except gristmill.UnpicklableError as error:
            own = Future()
            own.set_exception(error)
        future = ProcessFuture(own)
        self._futures.add(future)
        if not self._has_begun:
            # Pebble starts its workers within this call, and tests count on workers that take calls at once.
            self._has_begun = True
            len(self._executor._processes)
        return future

    def schedule(
        self, function: Any, args: Any = (), kwargs: Any = None, timeout: float | None = None
    ) -> Any:
        """Runs a call with its arguments as a tuple and a dict. Returns its future."""
        return self.submit(function, timeout, *args, **(kwargs or {}))

    def map(
        self,
        function: Callable[..., Any],
        *iterables: Iterable[Any],
        chunksize: int = 1,
        timeout: float | None = None,
    ) -> MapFuture:
        """Runs a call for each item. Returns the future of the map."""
        if chunksize < 1:
            raise ValueError("chunksize must be >= 1")
        calls = zip(*iterables, strict=False)
        return MapFuture([self.schedule(function, args, timeout=timeout) for args in calls])

    def close(self) -> None:
        """Stops accepting calls."""
        self._is_closed = True

    def stop(self) -> None:
        """Stops accepting calls, and cancels all calls."""
        self._is_closed = True
        for future in list(self._futures):
            future.cancel()

    def join(self, timeout: float | None = None) -> None:
        """Waits until all calls have ended and the workers have left."""
        if not self._is_closed:
            raise RuntimeError("The Pool is still running")
        end = None if timeout is None else time.monotonic() + timeout
        for future in list(self._futures):
            with contextlib.suppress(CancelledError):
                future.exception(None if end is None else max(0.0, end - time.monotonic()))
        self._executor.shutdown()

    @property
    def _pool_manager(self) -> Any:
        return SimpleNamespace(worker_manager=SimpleNamespace(workers=self._executor._processes))


pebble.ProcessPool = ProcessPool


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Replaces the error of a broken pool in the tests."""
    for module in {item.module for item in items}:  # type: ignore[attr-defined]
        module.BrokenProcessPool = _UNREADABLE
