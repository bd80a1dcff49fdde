"""Parsl programs: on Parsl's kernel or ours, each over Parsl's executors or ours."""

from __future__ import annotations

import importlib
from typing import Annotated, Any, ClassVar, Literal

from pydantic import Field, model_validator

from gristmill import on
from gristmill.bench.borders.hops import TaggedBackend
from gristmill.bench.executors.base import ExecutorPlugin, TaskTimeout, workers_of_each
from gristmill.bench.executors.groups import GroupedExecutor, Initializer
from gristmill.bench.executors.parsl_kernels import (
    Kernel,
    Logs,
    Queues,
    Surface,
    agents_are_there,
    direct,
    ours,
    over_htex,
    threads,
    with_nodes,
)
from gristmill.bench.interfaces import Backend

#: Nodes on this machine, which have the workers in equal parts; one, without agents, if it is 0.
Nodes = Annotated[int, Field(ge=0)]


class Parsl(ExecutorPlugin):
    """Parsl's kernel over HTEX, over threads, or over processes that it reaches directly.

    HTEX has one local block. The last is the DIREX of "Towards Fine-grained Parallelism" (thesis, section 2.3).
    """

    needs: ClassVar[tuple[str, ...]] = ("parsl",)
    without_groups: ClassVar[str] = "Parsl's workers run nothing before their first task"

    ways: ClassVar[tuple[dict[str, Any], ...]] = ({}, {"executor": "threads"})

    executor: Literal["htex", "threads", "direct"] = "htex"
    #: Blocks of HTEX, a manager each.
    nodes: Nodes = 0
    #: Whether direct workers share a queue of tasks, or each has its own.
    queues: Queues = "one"
    #: Whether the kernel writes its log, as it does where Parsl's users do not say otherwise. Interchange, managers and
    #: workers write theirs in both cases; with ``nowhere`` nothing at all is written.
    logs: Logs = False
    task_timeout: TaskTimeout = None

    @model_validator(mode="after")
    def _make_sense(self) -> Parsl:
        if self.nodes and self.executor != "htex":
            raise ValueError(f"executor {self.executor} has no nodes: they are of htex")
        if self.queues != "one" and self.executor != "direct":
            raise ValueError(f"the workers of {self.executor} share a queue: executor direct")
        workers_of_each(self.workers, self.nodes)
        return self

    def open(self) -> Backend:
        """Starts kernel and executor."""
        workers, queues = self.workers, self.queues
        match self.executor:
            case "htex":
                return over_htex("parsl", workers, self.nodes, self.logs, self.task_timeout)
            case "threads":
                return Kernel("parsl", lambda _: threads(workers), self.logs, self.task_timeout)
            case "direct":
                return Kernel(
                    "parsl", lambda _: direct(workers, queues), self.logs, self.task_timeout
                )

    def open_tagged(self) -> TaggedBackend:
        """Starts kernel and HTEX, of one block, with notes in all of its processes."""
        if self.executor != "htex" or self.nodes:
            return super().open_tagged()
        tagged = importlib.import_module("gristmill.bench.borders.htex").TaggedKernel
        backend: TaggedBackend = tagged(self.workers, self.logs, self.task_timeout)
        return backend


class GristmillParsl(GroupedExecutor):
    """A Parsl program: our kernel or Parsl's own (kernel), over our executor or HTEX (executor)."""

    kernel: Surface = "gristmill"
    executor: Literal["gristmill", "htex"] = "gristmill"
    #: Node agents of our executor, or blocks of HTEX.
    nodes: Nodes = 0
    #: Whether the kernel writes its log.
    logs: bool = False
    start: Literal["fork", "spawn"] = "fork"
    #: Repetitions of a task whose worker was lost.
    loss_retries: Annotated[int, Field(ge=0, le=65_535)] = 0
    task_timeout: TaskTimeout = None

    @model_validator(mode="after")
    def _make_sense(self) -> GristmillParsl:
        is_over_htex = self.executor == "htex"
        missing = Parsl.missing() if is_over_htex or self.kernel == "parsl" else None
        if missing is not None:
            whose = "Parsl's own kernel" if self.kernel == "parsl" else "htex"
            raise ValueError(f"{whose} is not available here: {missing}")
        ours_only = (self.groups, self.loss_retries, self.start == "spawn")
        if is_over_htex and any(ours_only):
            raise ValueError("groups, loss_retries and start are for our executor, not for htex")
        workers_of_each(self.workers, self.nodes)
        return self

    def start_workers(self, initializer: Initializer | None) -> Backend:
        """Starts kernel and executor; workers of ours start with the first task."""
        if self.executor == "htex":
            return over_htex(self.kernel, self.workers, self.nodes, self.logs, self.task_timeout)
        workers, nodes = workers_of_each(self.workers, self.nodes), self.nodes
        return with_nodes(
            Kernel(
                self.kernel,
                lambda _: ours(
                    workers,
                    initializer=initializer,
                    start_method=self.start,
                    threads_per_worker=self.told_threads(),
                    loss_retries=self.loss_retries,
                    nodes=on.local(nodes, workers) if nodes else None,
                ),
                self.logs,
                self.task_timeout,
            ),
            nodes,
            agents_are_there,
        )

    def loss_repeats(self) -> int:
        """As often as it is told to."""
        return self.loss_retries
