"""Pytest plugin that replaces ``mpi4py.futures.MPIPoolExecutor`` by our executor."""

from __future__ import annotations

import functools
import importlib
import os
import weakref
from collections.abc import Iterable, Iterator
from types import SimpleNamespace
from typing import Any

import mpi4py.futures
import mpi4py.futures._core
from observed import ObservedExecutor, tell_errors_as

import gristmill

#: Options of MPIPoolExecutor that control how its processes are started.
_STARTING = (
    "python_exe",
    "python_args",
    "mpi_info",
    "globals",
    "main",
    "path",
    "wdir",
    "use_pkl5",
    "backoff",
)


def _import_main(more: dict[str, Any], initializer: Any, *values: Any) -> None:
    """Imports the module of the tests, as processes of MPIPoolExecutor import the main program when they start.

    :param more: global variables to set in it.
    """
    vars(importlib.import_module("test_futures")).update(more)
    if initializer is not None:
        initializer(*values)


def _told(error: BaseException) -> BaseException:
    """Returns the bare error of a result that cannot be sent or read."""
    cause = error.__cause__
    is_ours = isinstance(error, (gristmill.UnpicklableError, gristmill.RemoteError))
    is_bare = cause is None or isinstance(cause, gristmill.RemoteTraceback)
    return cause if is_ours and not is_bare and cause is not None else error


class PoolExecutor(ObservedExecutor):
    """An executor with the methods that MPIPoolExecutor adds to those of the standard library."""

    def __init__(
        self,
        max_workers: int | None = None,
        initializer: Any = None,
        initargs: Iterable[Any] = (),
        **options: Any,
    ) -> None:
        told = os.environ.get("MPI4PY_FUTURES_MAX_WORKERS")
        if max_workers is None and told is not None:
            max_workers = int(told)
        environment = options.pop("env", None)
        if initializer is None or callable(initializer):
            initargs = (options.pop("globals", None) or {}, initializer, *initargs)
            initializer = _import_main
        options = {name: value for name, value in options.items() if name not in _STARTING}
        super().__init__(
            max_workers, initializer, tuple(initargs), environment=environment, **options
        )
        self._has_waited = False

    @property
    def num_workers(self) -> int:
        """Number of workers, of which an executor that has ended or is broken has none."""
        return self._max_workers

    @property
    def _max_workers(self) -> int:
        return 0 if self._is_shut_down or self._is_broken() else self._limit

    @_max_workers.setter
    def _max_workers(self, limit: int) -> None:
        self._limit = limit

    @property
    def _shutdown(self) -> bool:
        return self._is_shut_down

    @property
    def _pool(self) -> Pool | None:
        is_there = self.stats().submitted and not self._has_waited
        return Pool(self) if is_there else None

    def shutdown(self, wait: bool = True, **options: Any) -> None:
        """Ends the executor."""
        super().shutdown(wait, **options)
        self._has_waited |= wait

    def _held(self, error: BaseException) -> BaseException:
        return error.__cause__ or error

    def bootup(self, wait: bool = True) -> PoolExecutor:
        """Starts the workers. What their initializer raises is told by the tasks."""
        booted = self.submit(int)
        if wait:
            booted.exception()
            len(self._processes)
        return self

    def map(
        self,
        fn: Any,
        *iterables: Iterable[Any],
        timeout: float | None = None,
        chunksize: int = 1,
        buffersize: int | None = None,
        unordered: bool = False,
    ) -> Iterator[Any]:
        """Calls ``Executor.map``, with the option ``unordered`` of MPIPoolExecutor instead of ``ordered``.

        Raises ``ValueError`` for ``unordered`` with ``buffersize``, which ours takes together.
        """
        if unordered and buffersize is not None:
            raise ValueError("unordered and buffersize are mutually exclusive")
        return super().map(
            fn,
            *iterables,
            timeout=timeout,
            chunksize=chunksize,
            buffersize=buffersize,
            ordered=not unordered,
        )

    def starmap(self, fn: Any, iterable: Iterable[Any], **options: Any) -> Iterator[Any]:
        """Calls ``fn(*item)`` for each item."""
        columns = zip(*iterable, strict=True)
        return self.map(fn, *columns, **options)


class Queue:
    """Stand-in for the queue of a pool: the calls of an executor that have not ended."""

    def __init__(self, executor: PoolExecutor) -> None:
        self._executor = weakref.ref(executor)

    def pop(self) -> int:
        """Returns how many calls have not ended. Raises ``LookupError`` if there are none."""
        executor = self._executor()
        outstanding = 0 if executor is None else executor.stats().outstanding
        if not outstanding:
            raise LookupError("no call is outstanding")
        return outstanding


class Pool:
    """Stand-in for the pool of an MPIPoolExecutor, read from our executor, which it does not keep alive."""

    def __init__(self, executor: PoolExecutor) -> None:
        self.thread = executor._executor_manager_thread
        self.join = self.thread.join
        self.queue = Queue(executor)
        #: Set once the first worker is there.
        self.event = SimpleNamespace(is_set=executor._processes.has_begun)
        self.cancel = functools.partial(executor.shutdown, wait=False, cancel_futures=True)


tell_errors_as(_told)
mpi4py.futures.MPIPoolExecutor = PoolExecutor
mpi4py.futures._core.RemoteTraceback = gristmill.RemoteTraceback
