"""Parsl programs: on Parsl's kernel or Gristmill's, each over Parsl's executors or Gristmill's."""

from __future__ import annotations

import importlib
from typing import Annotated, Any, ClassVar, Literal

from pydantic import Field, model_validator

from gristmill import on
from gristmill_bench.borders.hops import TimedBackend
from gristmill_bench.executors.bare import Bare
from gristmill_bench.executors.base import ExecutorPlugin, TaskTimeout, workers_of_each
from gristmill_bench.executors.groups import GroupedExecutor, Initializer
from gristmill_bench.executors.parsl_kernels import (
    BareKernel,
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

#: Nodes on this machine, which share the workers equally; one node without agents if it is 0.
Nodes = Annotated[int, Field(ge=0)]


class Parsl(ExecutorPlugin):
    """Parsl's kernel over HTEX, over threads, or over processes that it reaches directly.

    HTEX has one local block. The direct processes are the DIREX of "Towards Fine-grained Parallelism" (thesis, section
    2.3).
    """

    needs: ClassVar[tuple[str, ...]] = ("parsl",)
    without_groups: ClassVar[str] = "Parsl's workers run nothing before their first task"

    ways: ClassVar[tuple[dict[str, Any], ...]] = ({}, {"executor": "threads"})

    executor: Literal["htex", "threads", "direct"] = "htex"
    #: Blocks of HTEX, each with a manager.
    nodes: Nodes = 0
    #: Queues of direct workers: one for all, or one for each.
    queues: Queues = "one"
    #: True if the kernel writes its log, which is Parsl's default. Interchange, managers and workers write their logs
    #: in both cases; with ``nowhere`` no process writes any log.
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

    def open(self) -> Kernel:
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

    def open_bare(self) -> Bare:
        """Starts kernel and executor."""
        return BareKernel(self.open())

    def open_timed(self) -> TimedBackend:
        """Starts kernel and HTEX, of one block, with timestamps from all of its processes."""
        if self.executor != "htex" or self.nodes:
            return super().open_timed()
        timed = importlib.import_module("gristmill_bench.borders.htex").TimedKernel
        backend: TimedBackend = timed(self.workers, self.logs, self.task_timeout)
        return backend


class GristmillParsl(GroupedExecutor):
    """A Parsl program: Gristmill's kernel or Parsl's own, over Gristmill's executor or one of Parsl's."""

    kernel: Surface = "gristmill"
    executor: Literal["gristmill", "htex", "threads"] = "gristmill"
    #: Node agents of Gristmill's executor, or blocks of HTEX.
    nodes: Nodes = 0
    #: True if the kernel writes its log.
    logs: bool = False
    start: Literal["fork", "spawn"] = "fork"
    #: Repetitions of a task whose worker was lost.
    loss_retries: Annotated[int, Field(ge=0, le=65_535)] = 0
    task_timeout: TaskTimeout = None

    @model_validator(mode="after")
    def _make_sense(self) -> GristmillParsl:
        is_over_parsl = self.executor != "gristmill"
        missing = Parsl.missing() if is_over_parsl or self.kernel == "parsl" else None
        if missing is not None:
            whose = "Parsl's own kernel" if self.kernel == "parsl" else self.executor
            raise ValueError(f"{whose} is not available here: {missing}")
        ours_only = (self.groups, self.loss_retries, self.start == "spawn")
        if is_over_parsl and any(ours_only):
            raise ValueError(
                f"groups, loss_retries and start are for our executor, not for {self.executor}"
            )
        if self.nodes and self.executor == "threads":
            raise ValueError("executor threads has no nodes")
        workers_of_each(self.workers, self.nodes)
        return self

    def open_bare(self) -> Bare:
        """Starts kernel and executor. Raises ``BenchError`` if the workers are in groups."""
        return super().open_bare() if self.groups else BareKernel(self.start_workers(None))

    def start_workers(self, initializer: Initializer | None) -> Kernel:
        """Starts kernel and executor; Gristmill's workers start with the first task."""
        if self.executor == "htex":
            return over_htex(self.kernel, self.workers, self.nodes, self.logs, self.task_timeout)
        if self.executor == "threads":
            return Kernel(
                self.kernel, lambda _: threads(self.workers), self.logs, self.task_timeout
            )
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
        """Returns ``loss_retries``."""
        return self.loss_retries
