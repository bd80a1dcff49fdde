"""Apps on our data-flow kernel and on Parsl's, each on our executor and on Parsl's."""

import importlib
from typing import Any

from benches.adapters.parsl_engine import ParslEngine, ParslHtexEngine, ParslThreadsEngine


def our_executor(workers: int) -> Any:
    """Makes our engine as an executor of either kernel."""
    executors = importlib.import_module("gristmill.parsl.executors.engine")
    return executors.GristmillExecutor(max_workers=workers)


class OursEngine(ParslEngine):
    """Our kernel on our engine, with its defaults."""

    key = "apps"
    name = "gristmill apps"
    surface = "gristmill"
    size_share = 1.0
    logs = True

    def executor(self) -> Any:
        return our_executor(self.workers)


class OursOnThreadsEngine(ParslThreadsEngine):
    """Our kernel on Parsl's threads."""

    key = "ours-threads"
    name = "our kernel, Parsl's threads"
    surface = "gristmill"


class ParslOnOursEngine(ParslEngine):
    """Parsl's kernel on our engine."""

    key = "parsl-ours"
    name = "Parsl's kernel, our executor"

    def executor(self) -> Any:
        return our_executor(self.workers)


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
