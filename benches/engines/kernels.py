"""Apps on our data-flow kernel and on Parsl's, each on our executor and on Parsl's."""

from abc import abstractmethod

from benches.engines.base import Engine
from gristmill_bench.executors.bare import Bare
from gristmill_bench.executors.base import ExecutorPlugin
from gristmill_bench.executors.parsls import GristmillParsl, Parsl

_OPENING = """
import parsl
{executor}
parsl.load(parsl.Config(executors=[executor], run_dir=".", initialize_logging=False,
    strategy="none", usage_tracking=0))
parsl.python_app(noop)(1).result()
"""


class KernelEngine(Engine):
    """A data-flow kernel of its own, which writes only to a scratch folder."""

    module = "parsl"
    distribution = "parsl"
    accepts_futures = True

    @abstractmethod
    def plugin(self) -> ExecutorPlugin:
        """Returns the pair of kernel and executor."""

    def open(self) -> Bare:
        return self.plugin().open_bare()


class ParslHtexEngine(KernelEngine):
    """HTEX with one local block and its defaults, except for encryption, which is off in Parsl's favour."""

    key = "htex"
    name = "Parsl HTEX"
    opening = _OPENING.format(
        executor="from parsl.executors import HighThroughputExecutor\n"
        "from parsl.providers import LocalProvider\n"
        "executor = HighThroughputExecutor(max_workers_per_node=2, address='127.0.0.1',\n"
        "    encrypted=False, provider=LocalProvider(init_blocks=1, max_blocks=1))"
    )

    def plugin(self) -> ExecutorPlugin:
        return Parsl(workers=self.workers)


class ParslThreadsEngine(KernelEngine):
    """Threads of the client, which need no other process but share one interpreter lock."""

    key = "parsl-threads"
    name = "Parsl threads"
    opening = _OPENING.format(
        executor="from parsl.executors import ThreadPoolExecutor\n"
        "executor = ThreadPoolExecutor(max_threads=2)"
    )

    def plugin(self) -> ExecutorPlugin:
        return Parsl(workers=self.workers, executor="threads")


class OursEngine(KernelEngine):
    """Our kernel on our engine, with its defaults."""

    key = "apps"
    name = "gristmill apps"
    size_share = 1.0

    def plugin(self) -> ExecutorPlugin:
        return GristmillParsl(workers=self.workers, threads="unset", logs=True)


class OursOnThreadsEngine(KernelEngine):
    """Our kernel on Parsl's threads."""

    key = "ours-threads"
    name = "our kernel, Parsl's threads"

    def plugin(self) -> ExecutorPlugin:
        return GristmillParsl(workers=self.workers, executor="threads")


class ParslOnOursEngine(KernelEngine):
    """Parsl's kernel on our engine."""

    key = "parsl-ours"
    name = "Parsl's kernel, our executor"

    def plugin(self) -> ExecutorPlugin:
        return GristmillParsl(workers=self.workers, threads="unset", kernel="parsl")


class LoggedHtexEngine(ParslHtexEngine):
    """Parsl's kernel and processes with their default logging: a line for each step of each task."""

    key = "htex-logged"
    name = "Parsl HTEX, logging"

    def plugin(self) -> ExecutorPlugin:
        return Parsl(workers=self.workers, logs=True)


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
