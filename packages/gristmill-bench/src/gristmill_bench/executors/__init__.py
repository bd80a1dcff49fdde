"""Executors that the suite measures: a plug-in for each, which opens it with a number of workers."""

from gristmill_bench.executors.base import ExecutorPlugin

__all__ = ["ExecutorPlugin"]
