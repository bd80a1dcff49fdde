"""A suite that measures task engines: applications written once, on any executor, with all it takes to run them again.

The idea is that of TaPS (Pauloski et al., *TaPS: A Performance Evaluation Suite for Task-based Execution Frameworks*,
2024). ``gristmill bench`` is the command; ``pip install gristmill[bench]`` brings what it needs.
"""

from gristmill.bench.apps.base import App
from gristmill.bench.config import Benchmark, resolve
from gristmill.bench.engine import Engine, Stream, TaskFuture
from gristmill.bench.errors import BenchError, RunFailed, WrongResult
from gristmill.bench.executors.base import ExecutorPlugin
from gristmill.bench.executors.groups import Group, GroupedExecutor
from gristmill.bench.filters import FilterPlugin
from gristmill.bench.interfaces import Backend, Filter, Future, Keeper, Records, Transformer
from gristmill.bench.plugins import Plugin
from gristmill.bench.records.base import RecordsPlugin
from gristmill.bench.run import perform, start
from gristmill.bench.transformers.base import TransformerPlugin

__all__ = [
    "App",
    "Backend",
    "BenchError",
    "Benchmark",
    "Engine",
    "ExecutorPlugin",
    "Filter",
    "FilterPlugin",
    "Future",
    "Group",
    "GroupedExecutor",
    "Keeper",
    "Plugin",
    "Records",
    "RecordsPlugin",
    "RunFailed",
    "Stream",
    "TaskFuture",
    "Transformer",
    "TransformerPlugin",
    "WrongResult",
    "perform",
    "resolve",
    "start",
]
