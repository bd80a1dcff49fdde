"""Gristmill's own executor."""

from __future__ import annotations

import os
from collections.abc import Callable
from copy import copy
from typing import Annotated, Any, ClassVar, Literal

from pydantic import Field, model_validator

import gristmill
from gristmill import on
from gristmill.instruments import with_reuse
from gristmill_bench.borders.hops import TimedBackend
from gristmill_bench.borders.ours import TimedDirect
from gristmill_bench.dependencies import AfterParents
from gristmill_bench.executors.bare import Bare, BareExecutor
from gristmill_bench.executors.base import (
    TaskTimeout,
    wait_for_nodes,
    workers_of_each,
)
from gristmill_bench.executors.batches import Batches, Gathered
from gristmill_bench.executors.groups import GroupedExecutor, Initializer
from gristmill_bench.interfaces import Backend, Future
from gristmill_bench.plugins import NONE_IS_A_CHOICE
from gristmill_bench.within import Source

#: Largest number of calls of a batch: the executor reads as many items of a map at once.
_BATCH_MAX = 1_024
#: Modules that workers preload: the program of the suite's runs, as the standard library's forkserver does.
_PRELOAD = ("gristmill_bench.child",)


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
    #: Seconds of polling before a worker sleeps; the executor chooses if not given.
    spin_seconds: Annotated[float, Field(ge=0, allow_inf_nan=False)] | None = None
    #: Repetitions of a task whose worker was lost.
    loss_retries: Annotated[int, Field(ge=0, le=65_535)] = 0
    task_timeout: TaskTimeout = None
    #: Reuse of what tasks share, as in the executor's contexts, unless the application chooses ``"none"``.
    reuse: Annotated[Literal["memory", "disk", "none"], NONE_IS_A_CHOICE] = "memory"
    #: Node agents on this machine, which share the workers equally; no agents if it is 0.
    nodes: Annotated[int, Field(ge=0)] = 0
    #: True if the workers are those of a ``Lease``: started at once, and polling for as long as tasks come often.
    lease: bool = False
    #: Largest number of calls that are gathered and sent as one map; each call is sent by itself if it is 0.
    batches: Annotated[int, Field(ge=0, le=_BATCH_MAX)] = 0

    @model_validator(mode="after")
    def _make_sense(self) -> Gristmill:
        workers_of_each(self.workers, self.nodes)
        return self

    def start_workers(self, initializer: Initializer | None) -> Backend:
        """Starts the executor. Its first workers start with the first task, unless they are on nodes or a lease's."""
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

    def open_bare(self) -> Bare:
        """Starts the executor. Raises ``BenchError`` if groups, nodes, batches or options of tasks were chosen."""
        if self.groups or self.nodes or self.batches or self.loss_retries or self.task_timeout:
            return super().open_bare()
        return BareExecutor(self._started(None, preload=()))

    def _started(
        self, initializer: Initializer | None, preload: tuple[str, ...] = _PRELOAD
    ) -> gristmill.Executor:
        workers = workers_of_each(self.workers, self.nodes)
        options: dict[str, Any] = {
            "initializer": initializer,
            "start": self.start,
            "preload": preload,
            "threads_per_worker": self.told_threads(),
            "nodes": on.local(self.nodes, workers) if self.nodes else None,
        }
        if not self.lease:
            return gristmill.Executor(workers, spin_seconds=self.spin_seconds, **options)
        return gristmill.Lease(max_workers=workers, spin_seconds=self.spin_seconds, **options)

    def open_timed(self) -> TimedBackend:
        """Starts the executor with timings of its tasks; batches have none."""
        if self.batches:
            return super().open_timed()
        return TimedDirect(self.open())

    def loss_repeats(self) -> int:
        """Returns ``loss_retries``."""
        return self.loss_retries


def wait_for_agents(
    executor: gristmill.Executor, submit: Callable[..., Future], nodes: int
) -> None:
    """Waits until the executor's agents are there; they start with the first task.

    :param submit: submits that task to the executor.
    """
    first = submit(os.getpid)
    wait_for_nodes(nodes, lambda: len(executor.nodes()))
    first.result()


class Direct:
    """Backend of an executor that takes futures as arguments itself."""

    def __init__(self, executor: gristmill.Executor, options: dict[str, Any], reuse: str) -> None:
        #: The executor itself.
        self.executor = executor
        self._options = options
        self._reuse = reuse
        # Without options tasks take the shorter path.
        chosen = executor.options(**options) if options else executor
        self.submit: Callable[..., Future] = chosen.submit

    def within(
        self, setup: Callable[..., Any], arguments: tuple[Any, ...]
    ) -> tuple[Backend, Source]:
        """Returns this backend with a context for all tasks, and a source that gives tasks the value of the context."""
        name = getattr(setup, "__name__", type(setup).__name__)
        context = with_reuse(gristmill.Context(_held, setup, arguments, name=name), self._reuse)
        inside = copy(self)
        inside.submit = self.executor.options(**self._options, context=context).submit
        return inside, _InContext(context)

    def shutdown(self) -> None:
        """Ends every process and thread of the executor."""
        self.executor.shutdown(wait=True, cancel_futures=True)


def _held(setup: Callable[..., Any], arguments: tuple[Any, ...]) -> dict[str, Any]:
    """Sets a context up; returns its value by name, as contexts require."""
    return {_HELD: setup(*arguments)}


class _InContext:
    """Source of the value of a task's context."""

    __slots__ = ("_context",)

    def __init__(self, context: gristmill.Context) -> None:
        self._context = context

    def __call__(self) -> Any:
        return self._context[_HELD]

    def _unchanging_parts(self) -> tuple[Any, ...]:
        """Returns all parts that this object is made of."""
        return (self._context,)

    def __reduce__(self) -> tuple[type[_InContext], tuple[Any, ...]]:
        return _InContext, (self._context,)


_HELD = "held"
