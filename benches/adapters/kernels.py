"""Apps on our data-flow kernel and on Parsl's, each on our executor and on Parsl's."""

from abc import abstractmethod
from operator import methodcaller
from typing import Any, ClassVar

from benches.adapters.base import Engine, Function, share_paths, suite

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

    #: `gristmill.bench`'s.
    backend: Any

    @abstractmethod
    def executor(self, folder: str) -> Any:
        """Makes Parsl's executor, which writes into that folder if it has to."""

    def options(self) -> dict[str, Any]:
        """Further fields of the configuration."""
        return {}

    def start(self) -> None:
        share_paths()
        self.backend = suite("parsls").Kernel(
            self.surface, self.executor, logs=self.logs, **self.options()
        )
        app_of = self.backend.app
        apps: dict[Function, Function] = {}

        def submit(function: Function, *arguments: Any) -> Any:
            app = apps.get(function)
            if app is None:
                app = apps[function] = app_of(function)
            return app(*arguments)

        self.submit = submit
        self.result = methodcaller("result")

    def close(self) -> None:
        self.backend.shutdown()


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

    def executor(self, folder: str) -> Any:
        return suite("parsls").htex(self.workers, folder)


class ParslThreadsEngine(ParslEngine):
    """Threads of the client: no process to reach, one interpreter lock to share."""

    key = "parsl-threads"
    name = "Parsl threads"
    opening = _OPENING.format(
        executor="from parsl.executors import ThreadPoolExecutor\n"
        "executor = ThreadPoolExecutor(max_threads=2)"
    )

    def executor(self, folder: str) -> Any:
        return suite("parsls").threads(self.workers)


class OursEngine(ParslEngine):
    """Our kernel on our engine, with its defaults."""

    key = "apps"
    name = "gristmill apps"
    surface = "gristmill"
    size_share = 1.0
    logs = True

    def executor(self, folder: str) -> Any:
        return suite("parsls").ours(self.workers)


class OursOnThreadsEngine(ParslThreadsEngine):
    """Our kernel on Parsl's threads."""

    key = "ours-threads"
    name = "our kernel, Parsl's threads"
    surface = "gristmill"


class ParslOnOursEngine(ParslEngine):
    """Parsl's kernel on our engine."""

    key = "parsl-ours"
    name = "Parsl's kernel, our executor"

    def executor(self, folder: str) -> Any:
        return suite("parsls").ours(self.workers)


class LoggedHtexEngine(ParslHtexEngine):
    """Parsl's kernel and processes with their default, a log line for each step of each task."""

    key = "htex-logged"
    name = "Parsl HTEX, logging"
    logs = True


KERNELS = {
    engine.key: engine
    for engine in (
        OursEngine,
        OursOnThreadsEngine,
        ParslOnOursEngine,
        LoggedHtexEngine,
        ParslHtexEngine,
        ParslThreadsEngine,
    )
}
