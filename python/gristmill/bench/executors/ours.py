"""Gristmill's own executor."""

from __future__ import annotations

import os
from collections.abc import Callable
from copy import copy
from typing import Annotated, Any, ClassVar, Literal

from pydantic import Field, model_validator

import gristmill
from gristmill import on
from gristmill.bench.borders.hops import TaggedBackend
from gristmill.bench.borders.ours import TaggedDirect
from gristmill.bench.dependencies import AfterParents
from gristmill.bench.executors.base import (
    TaskTimeout,
    wait_for_nodes,
    workers_of_each,
)
from gristmill.bench.executors.batches import Batches, Gathered
from gristmill.bench.executors.groups import GroupedExecutor, Initializer
from gristmill.bench.interfaces import Backend, Future
from gristmill.bench.plugins import NONE_IS_A_CHOICE
from gristmill.bench.within import Source

#: Calls of a batch: what the executor reads of a map at once.
_BATCH_MAX = 1_024
#: What workers find imported: the program that the suite runs, as those of the standard library's forkserver do.
_PRELOAD = ("gristmill.bench.child",)


class Gristmill(GroupedExecutor):
    """``gristmill.Executor``, with its defaults unless they are set."""

    ways: ClassVar[tuple[dict[str, Any], ...]] = (
        {},
        {"loss_retries": 3},
        {"nodes": 2},
        {"lease": True},
        {"batches": 100},
        {"start": "spawn"},
    )

    start: Literal["fork", "spawn"] = "fork"
    #: Microseconds of polling before a sleep; its own choice if not given.
    spin_us: Annotated[float, Field(ge=0, allow_inf_nan=False)] | None = None
    #: Repetitions of a task whose worker was lost.
    loss_retries: Annotated[int, Field(ge=0, le=65_535)] = 0
    task_timeout: TaskTimeout = None
    #: How it keeps what tasks share, if the application does not say "none": as its contexts do.
    reuse: Annotated[Literal["memory", "disk", "none"], NONE_IS_A_CHOICE] = "memory"
    #: Node agents on this machine, which have the workers in equal parts; without agents if it is 0.
    nodes: Annotated[int, Field(ge=0)] = 0
    #: Whether its workers are those of a ``Lease``: started at once, and hot for as long as tasks come often.
    lease: bool = False
    #: Calls that are gathered and sent as one map, at most; each is sent by itself if it is 0.
    batches: Annotated[int, Field(ge=0, le=_BATCH_MAX)] = 0

    @model_validator(mode="after")
    def _make_sense(self) -> Gristmill:
        workers_of_each(self.workers, self.nodes)
        return self

    def start_workers(self, initializer: Initializer | None) -> Backend:
        """Starts it; its first workers come with the first task, unless they are on nodes, or a lease's."""
        executor = self._started(initializer)
        try:
            if self.nodes:
                wait_for_agents(executor, executor.submit, self.nodes)
            if isinstance(executor, gristmill.Lease):
                executor.wait()
        except BaseException:
            executor.shutdown(wait=True, cancel_futures=True)
            raise
        options: dict[str, Any] = {}
        if self.loss_retries:
            options["loss_retries"] = self.loss_retries
        if self.task_timeout is not None:
            options["timeout"] = self.task_timeout
        if self.batches:
            # Each call of a map is a task of its own, with these options.
            chosen = executor.options(**options) if options else executor
            return AfterParents(Batches(executor, self.batches, chosen.map), Gathered)
        return Direct(executor, options, self.reuse)

    def _started(self, initializer: Initializer | None) -> gristmill.Executor:
        workers = workers_of_each(self.workers, self.nodes)
        options: dict[str, Any] = {
            "initializer": initializer,
            "start": self.start,
            "preload": _PRELOAD,
            "threads_per_worker": self.told_threads(),
            "nodes": on.local(self.nodes, workers) if self.nodes else None,
        }
        if not self.lease:
            return gristmill.Executor(workers, spin_us=self.spin_us, **options)
        hot = None if self.spin_us is None else self.spin_us / 1e6
        return gristmill.Lease(workers=workers, hot=hot, **options)

    def open_tagged(self) -> TaggedBackend:
        """Its tasks have tags; those of batches are not looked at."""
        if self.batches:
            return super().open_tagged()
        return TaggedDirect(self.open())

    def loss_repeats(self) -> int:
        """As often as it is told to."""
        return self.loss_retries


def wait_for_agents(
    executor: gristmill.Executor, submit: Callable[..., Future], nodes: int
) -> None:
    """Waits until its agents are there, which begin to come with the first task.

    :param submit: by which that task goes to the executor.
    """
    first = submit(os.getpid)
    wait_for_nodes(nodes, lambda: len(executor._nodes()))
    first.result()


class Direct:
    """It takes futures as arguments itself."""

    def __init__(self, executor: gristmill.Executor, options: dict[str, Any], reuse: str) -> None:
        #: The executor itself.
        self.executor = executor
        self._options = options
        self._reuse = reuse
        # Without options tasks take the short way.
        chosen = executor.options(**options) if options else executor
        self.submit: Callable[..., Future] = chosen.submit

    def within(
        self, setup: Callable[..., Any], arguments: tuple[Any, ...]
    ) -> tuple[Backend, Source]:
        """Itself with a context for all tasks, and what gives them what that has."""
        name = getattr(setup, "__name__", type(setup).__name__)
        context = gristmill.Context(_held, setup, arguments, name=name, reuse=self._reuse)
        inside = copy(self)
        inside.submit = self.executor.options(**self._options, context=context).submit
        return inside, _InContext(context)

    def shutdown(self) -> None:
        """Ends every process and thread of it."""
        self.executor.shutdown(wait=True, cancel_futures=True)


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

    def _unchanging_parts(self) -> tuple[Any, ...]:
        """All that it is made of."""
        return (self._context,)

    def __reduce__(self) -> tuple[type[_InContext], tuple[Any, ...]]:
        return _InContext, (self._context,)


_HELD = "held"
