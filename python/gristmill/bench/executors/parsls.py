"""Parsl programs: on Parsl's kernel or ours, each over Parsl's executors or ours."""

from __future__ import annotations

import importlib
import os
import sys
from collections.abc import Callable
from typing import Annotated, Any, ClassVar, Literal

from pydantic import Field, model_validator

from gristmill import on
from gristmill.bench.borders.hops import TaggedBackend
from gristmill.bench.executors.base import (
    ExecutorPlugin,
    TaskTimeout,
    put_first,
    scratch,
    wait_for_nodes,
    workers_of_each,
)
from gristmill.bench.executors.groups import GroupedExecutor, Initializer
from gristmill.bench.executors.ours import wait_for_agents
from gristmill.bench.interfaces import Backend, Future

#: Whether workers share a queue of tasks.
Queues = Literal["one", "each"]
#: HTEX has no more workers than its share of the cores, if that is not nothing.
_CORES_PER_WORKER = 1e-3
#: The package that has Parsl's names: Parsl itself, or ours.
Surface = Literal["parsl", "gristmill"]
#: Nodes on this machine, which have the workers in equal parts; one, without agents, if it is 0.
Nodes = Annotated[int, Field(ge=0)]


class Parsl(ExecutorPlugin):
    """Parsl's data-flow kernel over its own executors: HTEX, of one local block, or threads; or over processes that
    are reached directly: the DIREX of "Towards Fine-grained Parallelism" (thesis, section 2.3).
    """

    needs: ClassVar[tuple[str, ...]] = ("parsl",)
    without_groups: ClassVar[str] = "Parsl's workers run nothing before their first task"

    ways: ClassVar[tuple[dict[str, Any], ...]] = ({}, {"executor": "threads"})

    executor: Literal["htex", "threads", "direct"] = "htex"
    #: Blocks of HTEX, a manager each.
    nodes: Nodes = 0
    #: Whether direct workers share a queue of tasks, or each has its own.
    queues: Queues = "one"
    #: Whether the kernel writes its log, as it does where Parsl's users do not say otherwise.
    logs: bool = False
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
    loss_retries: Annotated[int, Field(ge=0)] = 0
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
        return _with_nodes(
            Kernel(
                self.kernel,
                lambda _: ours(
                    workers,
                    initializer=initializer,
                    start_method=self.start,
                    threads_per_worker=self.threads,
                    loss_retries=self.loss_retries,
                    nodes=on.local(nodes, workers) if nodes else None,
                ),
                self.logs,
                self.task_timeout,
            ),
            nodes,
            _agents_are_there,
        )

    def loss_repeats(self) -> int:
        """As often as it is told to."""
        return self.loss_retries


def threads(workers: int) -> Any:
    """Parsl's executor in threads of the program."""
    executors = importlib.import_module("parsl.executors")
    return executors.ThreadPoolExecutor(label="threads", max_threads=workers)


def direct(workers: int, queues: Queues) -> Any:
    """Processes that tasks go to directly."""
    return importlib.import_module("gristmill.bench.executors.direct").DirectExecutor(
        workers, queues
    )


def htex(workers: int, folder: str, **others: Any) -> Any:
    """Parsl's executor in processes of one local block, with its defaults but for encryption, which is off.

    :param folder: for its logs.
    :param others: further arguments of it, or other ones.
    """
    local = importlib.import_module("parsl.providers").LocalProvider
    chosen: dict[str, Any] = {
        "address": "127.0.0.1",
        "cores_per_worker": _CORES_PER_WORKER,
        "worker_logdir_root": folder,
        "provider": local(init_blocks=1, max_blocks=1),
    } | others
    return importlib.import_module("parsl.executors").HighThroughputExecutor(
        label="htex", max_workers_per_node=workers, encrypted=False, **chosen
    )


def over_htex(
    surface: Surface, workers: int, nodes: int, logs: bool, walltime: float | None
) -> Kernel:
    """A kernel over HTEX.

    :param nodes: blocks, all of which are waited for; if it is 0, one that is not.
    """
    each, blocks = workers_of_each(workers, nodes), nodes or 1

    def make(folder: str) -> Any:
        local = importlib.import_module("parsl.providers").LocalProvider
        return htex(each, folder, provider=local(init_blocks=blocks, max_blocks=blocks))

    return _with_nodes(Kernel(surface, make, logs, walltime), nodes, _managers_are_there)


def _with_nodes(kernel: Kernel, nodes: int, are_there: Callable[[Kernel, int], None]) -> Kernel:
    """A kernel whose nodes are there, if it has some."""
    try:
        if nodes:
            are_there(kernel, nodes)
    except BaseException:
        kernel.shutdown()
        raise
    return kernel


def _managers_are_there(kernel: Kernel, nodes: int) -> None:
    executor = kernel.kernel.executors["htex"]
    wait_for_nodes(nodes, lambda: len(executor.connected_managers()))


def _agents_are_there(kernel: Kernel, nodes: int) -> None:
    engine = kernel.kernel.executors["gristmill"]._engine
    wait_for_agents(engine, kernel.submit, nodes)


def ours(workers: int, **others: Any) -> Any:
    """Our engine, as an executor of either kernel."""
    executors = importlib.import_module("gristmill.parsl.executors.engine")
    return executors.GristmillExecutor(max_workers=workers, **others)


class Kernel:
    """A kernel with one executor: nothing remembered, nothing scaled, nothing written outside of a folder of its own.

    :param surface: whose kernel.
    :param make_executor: is given the folder.
    :param logs: whether the kernel writes its log.
    :param walltime: seconds that each task may run.
    :param others: further fields of its configuration.
    """

    def __init__(
        self,
        surface: Surface,
        make_executor: Callable[[str], Any],
        logs: bool = False,
        walltime: float | None = None,
        **others: Any,
    ) -> None:
        # Parsl's workers are commands beside Python.
        put_first("PATH", os.path.dirname(sys.executable))
        self._parsl = importlib.import_module(surface)
        self._folder = scratch()
        #: The kernel itself.
        self.kernel = self._parsl.DataFlowKernel(
            self._parsl.Config(
                executors=[make_executor(self._folder.name)],
                run_dir=self._folder.name,
                initialize_logging=logs,
                strategy="none",
                usage_tracking=0,
                **others,
            )
        )
        self._walltime = walltime
        self._apps: dict[Callable[..., Any], Callable[..., Future]] = {}

    def app(self, function: Callable[..., Any]) -> Callable[..., Future]:
        """The app that a function is made, once."""
        app = self._apps.get(function)
        if app is None:
            seconds = self._walltime
            called = function if seconds is None else _limited(function, seconds)
            app = self._parsl.python_app(called, data_flow_kernel=self.kernel)
            self._apps[function] = app
        return app

    def submit(self, function: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future:
        """Calls the app that the function is made."""
        return self.app(function)(*args, **kwargs)

    def shutdown(self) -> None:
        """Ends kernel and executor."""
        if not self.kernel.cleanup_called:
            self.kernel.cleanup()
        self._folder.cleanup()


def _limited(function: Callable[..., Any], seconds: float) -> Callable[..., Any]:
    """A function with the parameter by which Parsl knows for how long it may run."""

    def limited(*args: Any, walltime: float = seconds, **kwargs: Any) -> Any:
        return function(*args, **kwargs)

    return limited
