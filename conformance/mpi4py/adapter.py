"""Pytest plugin that replaces ``mpi4py.futures.MPIPoolExecutor`` by our executor."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import mpi4py.futures

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
    "env",
    "use_pkl5",
)


class PoolExecutor(gristmill.Executor):
    """An executor with the methods that MPIPoolExecutor adds to those of the standard library."""

    def __init__(
        self,
        max_workers: int | None = None,
        initializer: Any = None,
        initargs: Iterable[Any] = (),
        **options: Any,
    ) -> None:
        options = {name: value for name, value in options.items() if name not in _STARTING}
        super().__init__(max_workers, initializer, tuple(initargs), **options)

    @property
    def num_workers(self) -> int:
        """Maximum number of workers."""
        return self._max_workers

    def bootup(self, wait: bool = True) -> PoolExecutor:
        """Starts the workers."""
        booted = self.submit(int)
        if wait:
            booted.result()
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
        """Calls ``Executor.map``, with the option ``unordered`` of MPIPoolExecutor instead of ``ordered``."""
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


mpi4py.futures.MPIPoolExecutor = PoolExecutor
