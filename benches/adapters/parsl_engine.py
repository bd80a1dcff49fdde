"""Parsl with its high-throughput executor, and with its thread executor."""

import importlib
import tempfile
from abc import abstractmethod
from operator import methodcaller
from typing import Any, ClassVar

from benches.adapters.base import Engine, Function, scratch, share_paths

_OPENING = """
import parsl
{executor}
parsl.load(parsl.Config(executors=[executor], run_dir=".", initialize_logging=False,
    strategy="none", usage_tracking=0))
parsl.python_app(noop)(1).result()
"""


class ParslEngine(Engine):
    """A data-flow kernel of its own; nothing written outside a scratch folder."""

    module = "parsl"
    distribution = "parsl"
    accepts_futures = True
    #: Whose kernel runs the apps: the package that has Parsl's surface.
    surface: ClassVar[str] = "parsl"
    #: Whether the kernel writes its log file.
    logs: ClassVar[bool] = False

    folder: tempfile.TemporaryDirectory[str]
    kernel: Any

    @abstractmethod
    def executor(self) -> Any:
        """Makes Parsl's executor."""

    def options(self) -> dict[str, Any]:
        """Further fields of the configuration."""
        return {}

    def start(self) -> None:
        share_paths()
        parsl = importlib.import_module(self.surface)
        self.folder = scratch()
        self.kernel = parsl.DataFlowKernel(
            parsl.Config(
                executors=[self.executor()],
                run_dir=self.folder.name,
                initialize_logging=self.logs,
                strategy="none",
                usage_tracking=0,
                **self.options(),
            )
        )
        apps: dict[Function, Function] = {}

        def submit(function: Function, *arguments: Any) -> Any:
            app = apps.get(function)
            if app is None:
                app = parsl.python_app(function, data_flow_kernel=self.kernel)
                apps[function] = app
            return app(*arguments)

        self.submit = submit
        self.result = methodcaller("result")

    def close(self) -> None:
        self.kernel.cleanup()
        self.folder.cleanup()


class ParslHtexEngine(ParslEngine):
    """One local block, its defaults but for encryption, which is off in Parsl's favour."""

    key = "htex"
    name = "Parsl HTEX"
    opening = _OPENING.format(
        executor="from parsl.executors import HighThroughputExecutor\n"
        "from parsl.providers import LocalProvider\n"
        "executor = HighThroughputExecutor(max_workers_per_node=2, address='127.0.0.1',\n"
        "    encrypted=False, provider=LocalProvider(init_blocks=1, max_blocks=1))"
    )

    def executor(self) -> Any:
        providers = importlib.import_module("parsl.providers")
        return importlib.import_module("parsl.executors").HighThroughputExecutor(
            label="htex",
            max_workers_per_node=self.workers,
            address="127.0.0.1",
            encrypted=False,
            worker_logdir_root=self.folder.name,
            provider=providers.LocalProvider(init_blocks=1, max_blocks=1),
        )


class ParslThreadsEngine(ParslEngine):
    """Threads of the client: no process to reach, one interpreter lock to share."""

    key = "parsl-threads"
    name = "Parsl threads"
    opening = _OPENING.format(
        executor="from parsl.executors import ThreadPoolExecutor\n"
        "executor = ThreadPoolExecutor(max_threads=2)"
    )

    def executor(self) -> Any:
        executors = importlib.import_module("parsl.executors")
        return executors.ThreadPoolExecutor(label="threads", max_threads=self.workers)
