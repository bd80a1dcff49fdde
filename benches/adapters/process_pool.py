"""`concurrent.futures.ProcessPoolExecutor`."""

from concurrent.futures import Executor, ProcessPoolExecutor

from benches.adapters.base import ExecutorEngine


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
        return ProcessPoolExecutor(self.workers)
