"""Pools of processes."""

import multiprocessing
from collections.abc import Iterable
from concurrent.futures import Executor
from multiprocessing.pool import Pool
from operator import methodcaller
from typing import Any, cast

from benches.adapters.base import Engine, ExecutorEngine, Function, share_paths, suite


class ProcessPoolEngine(ExecutorEngine):
    """The standard library's executor with its defaults."""

    key = "ppe"
    name = "ProcessPoolExecutor"
    module = "concurrent.futures"
    chunks = (256, 1024, 4096, 8192, 32768)
    opening = (
        "from concurrent.futures import ProcessPoolExecutor as Executor\n"
        "executor = Executor(2)\nexecutor.submit(noop, 1).result()"
    )

    def open(self) -> Executor:
        plugin = suite("pools").Processes(
            workers=self.workers, start=multiprocessing.get_start_method()
        )
        return cast(Executor, plugin.open().executor)


class LokyEngine(ExecutorEngine):
    """joblib's executor with its defaults; its workers are started afresh, not forked."""

    key = "loky"
    name = "loky"
    module = "loky"
    distribution = "loky"
    chunks = (256, 1024, 4096, 8192, 32768)
    opening = (
        "from loky import ProcessPoolExecutor as Executor\n"
        "executor = Executor(2)\nexecutor.submit(noop, 1).result()"
    )

    def open(self) -> Executor:
        share_paths()
        return cast(Executor, suite("pools").Loky(workers=self.workers).open().executor)

    def close(self) -> None:
        self.executor.shutdown(wait=True)


class PoolEngine(Engine):
    """The standard library's pool: `apply_async` for a task, `map` for many."""

    key = "pool"
    name = "multiprocessing.Pool"
    module = "multiprocessing"
    chunks = (256, 1024, 4096, 8192, 16384, 32768, 65536, 131072, 262144)
    opening = "from multiprocessing import Pool\npool = Pool(2)\npool.apply_async(noop, (1,)).get()"

    pool: Pool

    def start(self) -> None:
        plugin = suite("pools").Pool(workers=self.workers, start=multiprocessing.get_start_method())
        self.pool = plugin.open().executor.pool
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
