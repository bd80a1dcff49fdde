"""Pytest plugin that makes the executors of ``more_executors`` delegate to ours instead of thread pools."""

from __future__ import annotations

import concurrent.futures
from typing import Any

import more_executors
from more_executors._impl.wrap import CanCustomizeBind

import gristmill


class PoolExecutor(CanCustomizeBind, gristmill.Executor):  # type: ignore[misc]
    """An executor that accepts the arguments of a thread pool and has the methods ``with_...``."""

    def __init__(self, max_workers: int | None = None, name: str = "", **options: Any) -> None:
        super().__init__(max_workers, **options)


# This happens before the tests import these names.
more_executors.Executors.thread_pool = PoolExecutor
more_executors.Executors.process_pool = PoolExecutor
concurrent.futures.ThreadPoolExecutor = PoolExecutor  # type: ignore[misc]
concurrent.futures.ProcessPoolExecutor = PoolExecutor  # type: ignore[misc]
