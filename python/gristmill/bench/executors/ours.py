"""Gristmill's own executor."""

from __future__ import annotations

from collections.abc import Callable
from copy import copy
from typing import Annotated, Any, ClassVar, Literal

from pydantic import Field

import gristmill
from gristmill.bench.executors.base import ExecutorPlugin, TaskTimeout
from gristmill.bench.interfaces import Backend, Future
from gristmill.bench.plugins import NONE_IS_A_CHOICE
from gristmill.bench.within import Source


class Gristmill(ExecutorPlugin):
    """``gristmill.Executor``, with its defaults unless they are set."""

    ways: ClassVar[tuple[dict[str, Any], ...]] = ({}, {"loss_retries": 3})

    start: Literal["fork", "spawn"] = "fork"
    #: Microseconds of polling before a sleep; its own choice if not given.
    spin_us: float | None = None
    #: Repetitions of a task whose worker was lost.
    loss_retries: Annotated[int, Field(ge=0)] = 0
    task_timeout: TaskTimeout = None
    #: How it keeps what tasks share, if the application does not say "none": as its contexts do.
    reuse: Annotated[Literal["memory", "disk", "none"], NONE_IS_A_CHOICE] = "memory"

    def open(self) -> Backend:
        """Its first workers are started."""
        executor = gristmill.Executor(self.workers, start=self.start, spin_us=self.spin_us)
        options: dict[str, Any] = {}
        if self.loss_retries:
            options["loss_retries"] = self.loss_retries
        if self.task_timeout is not None:
            options["timeout"] = self.task_timeout
        return _Opened(executor, options, self.reuse)

    def loss_repeats(self) -> int:
        """As often as it is told to."""
        return self.loss_retries


class _Opened:
    """It takes futures as arguments itself."""

    def __init__(
        self, executor: gristmill.Executor, options: dict[str, Any], reuse: str
    ) -> None:
        self._executor = executor
        self._options = options
        self._reuse = reuse
        # Without options tasks take the short way.
        chosen = executor.options(**options) if options else executor
        self.submit: Callable[..., Future] = chosen.submit

    def within(
        self, setup: Callable[..., Any], arguments: tuple[Any, ...]
    ) -> tuple[Backend, Source]:
        name = getattr(setup, "__name__", type(setup).__name__)
        context = gristmill.Context(_held, setup, arguments, name=name, reuse=self._reuse)
        inside = copy(self)
        inside.submit = self._executor.options(**self._options, context=context).submit
        return inside, _InContext(context)

    def shutdown(self) -> None:
        self._executor.shutdown(wait=True, cancel_futures=True)


def _held(setup: Callable[..., Any], arguments: tuple[Any, ...]) -> dict[str, Any]:
    """Contexts give what was set up by name."""
    return {_HELD: setup(*arguments)}


class _InContext:
    """Gives a task what its context has."""

    __slots__ = ("_context",)

    def __init__(self, context: gristmill.Context) -> None:
        self._context = context

    def __call__(self) -> Any:
        return self._context[_HELD]

    def __reduce__(self) -> tuple[type[_InContext], tuple[Any, ...]]:
        return _InContext, (self._context,)


_HELD = "held"
