"""`multiprocessing.Pool`."""

import multiprocessing
from collections.abc import Iterable
from multiprocessing.pool import Pool
from operator import methodcaller
from typing import Any

from benches.adapters.base import Engine, Function


class PoolEngine(Engine):
    """The standard library's pool: `apply_async` for a task, `map` for many."""

    key = "pool"
    name = "multiprocessing.Pool"
    module = "multiprocessing"
    chunks = (256, 1024, 4096, 8192, 16384, 32768, 65536, 131072, 262144)
    opening = "from multiprocessing import Pool\npool = Pool(2)\npool.apply_async(noop, (1,)).get()"

    pool: Pool

    def start(self) -> None:
        self.pool = multiprocessing.Pool(self.workers)
        apply = self.pool.apply_async
        self.submit = lambda function, *arguments: apply(function, arguments)
        self.result = methodcaller("get")

    def close(self) -> None:
        self.pool.terminate()
        self.pool.join()

    def collect(self, futures: Iterable[Any]) -> list[Any]:
        return [future.get() for future in futures]

    def map(self, function: Function, items: range, chunk: int | None) -> list[Any]:
        return self.pool.map(function, items, chunk)
