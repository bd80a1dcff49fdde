"""Applications that the suite runs: a plug-in for each, written once for all executors."""

from gristmill_bench.apps.base import App

__all__ = ["App"]
