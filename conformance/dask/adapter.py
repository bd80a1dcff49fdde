"""Pytest plugin that makes Dask's threaded and multiprocessing schedulers use our executor."""

from __future__ import annotations

from typing import Any

import dask.multiprocessing
import dask.threaded

import gristmill


class PoolExecutor(gristmill.Executor):
    """An executor that accepts the arguments that Dask passes to its pools."""

    def __init__(
        self, max_workers: int | None = None, mp_context: Any = None, **options: Any
    ) -> None:
        super().__init__(max_workers, **options)


def _pack_exception(error: BaseException, _dumps: Any) -> tuple[BaseException, None]:
    """Packs what a task raised, as Dask lets its schedulers do: a traceback cannot leave a process."""
    return error, None


dask.threaded.pack_exception = _pack_exception
dask.threaded.ContextAwareThreadPoolExecutor = PoolExecutor
dask.multiprocessing.ProcessPoolExecutor = PoolExecutor
