"""Gristmill's own executor."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any, ClassVar, Literal

from pydantic import Field

import gristmill
from gristmill.bench.executors.base import ExecutorPlugin, TaskTimeout
from gristmill.bench.interfaces import Backend, Future


class Gristmill(ExecutorPlugin):
    """``gristmill.Executor``, with its defaults unless they are set."""

    ways: ClassVar[tuple[dict[str, Any], ...]] = ({}, {"loss_retries": 3})

    start: Literal["fork", "spawn"] = "fork"
    #: Microseconds of polling before a sleep; its own choice if not given.
    spin_us: float | None = None
    #: Repetitions of a task whose worker was lost.
    loss_retries: Annotated[int, Field(ge=0)] = 0
    task_timeout: TaskTimeout = None

    def open(self) -> Backend:
        """Its first workers are started."""
        executor = gristmill.Executor(self.workers, start=self.start, spin_us=self.spin_us)
        options: dict[str, Any] = {}
        if self.loss_retries:
            options["loss_retries"] = self.loss_retries
        if self.task_timeout is not None:
            options["timeout"] = self.task_timeout
        return _Opened(executor, options)

    def loss_repeats(self) -> int:
        """As often as it is told to."""
        return self.loss_retries


class _Opened:
    """It takes futures as arguments itself."""

    def __init__(self, executor: gristmill.Executor, options: dict[str, Any]) -> None:
        self._executor = executor
        # Without options tasks take the short way.
        chosen = executor.options(**options) if options else executor
        self.submit: Callable[..., Future] = chosen.submit

    def shutdown(self) -> None:
        self._executor.shutdown(wait=True, cancel_futures=True)
