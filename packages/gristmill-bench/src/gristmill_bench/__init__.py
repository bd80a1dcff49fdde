"""Benchmark suite for task engines: each application is written once, runs on any executor, and can be run again.

The idea is that of TaPS (Pauloski et al., *TaPS: A Performance Evaluation Suite for Task-based Execution Frameworks*,
2024). ``gristmill bench`` is the command; the distribution is ``gristmill-bench``.
"""

from gristmill_bench.apps.base import App
from gristmill_bench.config import Benchmark, resolve
from gristmill_bench.engine import Engine, Stream, TaskFuture
from gristmill_bench.errors import BenchError, RunFailed, WrongResult
from gristmill_bench.executors.base import ExecutorPlugin
from gristmill_bench.executors.groups import Group, GroupedExecutor
from gristmill_bench.filters import FilterPlugin
from gristmill_bench.interfaces import Backend, Filter, Future, Keeper, Records, Transformer
from gristmill_bench.plugins import Plugin
from gristmill_bench.records.base import RecordsPlugin
from gristmill_bench.run import perform, start
from gristmill_bench.transformers.base import TransformerPlugin

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
