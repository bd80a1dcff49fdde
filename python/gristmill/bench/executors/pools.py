"""Pools of processes: the standard library's and loky's."""

from __future__ import annotations

import importlib
import multiprocessing
from concurrent.futures import ProcessPoolExecutor
from typing import ClassVar, Literal

from gristmill.bench.dependencies import AfterParents
from gristmill.bench.executors.base import ExecutorPlugin
from gristmill.bench.interfaces import Backend


class Processes(ExecutorPlugin):
    """``concurrent.futures.ProcessPoolExecutor``."""

    start: Literal["fork", "spawn", "forkserver"] = "forkserver"

    def open(self) -> Backend:
        """Its processes start with its first tasks."""
        return AfterParents(
            ProcessPoolExecutor(self.workers, mp_context=multiprocessing.get_context(self.start))
        )


class Loky(ExecutorPlugin):
    """``loky.ProcessPoolExecutor``: joblib's."""

    needs: ClassVar[tuple[str, ...]] = ("loky",)

    def open(self) -> Backend:
        """Its processes start with its first tasks."""
        return AfterParents(importlib.import_module("loky").ProcessPoolExecutor(self.workers))
