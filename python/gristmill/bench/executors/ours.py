"""Gristmill's own executor."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

import gristmill
from gristmill.bench.executors.base import ExecutorPlugin
from gristmill.bench.interfaces import Backend, Future


class Gristmill(ExecutorPlugin):
    """``gristmill.Executor``, with its defaults unless they are set."""

    start: Literal["fork", "spawn"] = "fork"
    #: Microseconds of polling before a sleep; its own choice if not given.
    spin_us: float | None = None
    #: Repetitions of a task whose worker was lost.
    loss_retries: int = 0

    def open(self) -> Backend:
        """Its first workers are started."""
        executor = gristmill.Executor(self.workers, start=self.start, spin_us=self.spin_us)
        return _Opened(executor, self.loss_retries)


class _Opened:
    """It takes futures as arguments itself."""

    def __init__(self, executor: gristmill.Executor, loss_retries: int) -> None:
        self._executor = executor
        options = executor.options(loss_retries=loss_retries) if loss_retries else executor
        self.submit: Callable[..., Future] = options.submit

    def shutdown(self) -> None:
        self._executor.shutdown(wait=True, cancel_futures=True)
