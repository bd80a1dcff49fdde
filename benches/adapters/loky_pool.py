"""loky's executor, the one under joblib."""

import importlib
from concurrent.futures import Executor
from typing import cast

from benches.adapters.base import ExecutorEngine, share_paths


class LokyEngine(ExecutorEngine):
    """loky with its defaults; its workers are started afresh, not forked."""

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
        return cast(Executor, importlib.import_module("loky").ProcessPoolExecutor(self.workers))

    def close(self) -> None:
        self.executor.shutdown(wait=True)
