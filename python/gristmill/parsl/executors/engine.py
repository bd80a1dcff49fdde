"""Gristmill's engine as an executor: of the kernel here and, in an unchanged configuration, of Parsl's own.

Its workers are on this machine, on the nodes of a placement, or in the blocks of a provider. The engine scales blocks
by itself under either kernel: Parsl's own poller would submit the first one only after its period, and does not know
when nodes have joined.

What the kernel sends has its dependencies resolved, so the engine sees plain calls. Its futures are handed out as they
are: an attribute more on each would cost every task a dictionary.
"""

from __future__ import annotations

import functools
from types import MappingProxyType
from typing import TYPE_CHECKING

import gristmill
from gristmill import _native
from gristmill._captures import trust_contents
from gristmill.parsl.executors.base import ParslExecutor, radio_of_parsl
from gristmill.parsl.executors.binding import Binding, bind_here
from gristmill.parsl.executors.blocks import (
    guess_workers,
    placement_of,
    preload_of_parsl,
)
from gristmill.parsl.executors.specification import Specification, read
from gristmill.parsl.executors.telling import TellsOfBlocks
from gristmill.parsl.futures import AppFuture, DataFuture

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from concurrent.futures import Future
    from typing import Any

    from gristmill._nodes.blobs import Blobs
    from gristmill._nodes.block_status import ErrorHandler
    from gristmill._nodes.placement import Placement
    from gristmill.parsl.config import Config

#: Of how many different specifications the options are kept: programs have a few levels of priority, not thousands.
_SPECIFICATIONS_MAX = 256


class _Engine(gristmill.Executor):
    """Loads Parsl once for all workers where its kernel wraps the functions that are sent."""

    #: What workers of this machine are told by their environment, beyond this program's.
    told: Mapping[str, str] = MappingProxyType({})
    #: What each of their places is near to.
    domains: Sequence[int] = ()

    def _describe_world(self, function: object = None) -> tuple[bytes, dict[str, Any]]:
        home = getattr(function, "__globals__", {}).get("__name__", "")
        if home.startswith("parsl."):
            # In each worker it would take a second and 20 MB of its own.
            self._preload = (*self._preload, home)
        world, program = super()._describe_world(function)
        program["environment"] += [f"{name}={text}".encode() for name, text in self.told.items()]
        program["domains"] = list(self.domains)
        return world, program


class GristmillExecutor(TellsOfBlocks, ParslExecutor):
    """Runs tasks in worker processes of this machine, which start with the first task, or of nodes.

    :param max_workers: worker processes; the cores this process may use if not given. On nodes: of each one at most.
    :param start_method: ``"fork"`` forks workers from a warm zygote; ``"spawn"`` starts an interpreter each.
    :param initializer: called in each worker before its first task, with ``initargs``.
    :param preload: names of modules that are imported once for all workers.
    :param threads_per_worker: threads that BLAS and OpenMP may use in each worker; its share of the cores if not given.
    :param max_tasks_per_child: a worker is replaced after this many tasks; never if not given.
    :param task_limit: tasks that may be outstanding before ``submit`` waits; 16 million or a quarter of memory if not
        given.
    :param loss_retries: how often a task whose worker died is run again before its future raises ``WorkerLost``, in
        addition to the retries of the kernel.
    :param storage_access: staging providers for files; the kernel's own list if ``None``.
    :param working_dir: the folder that files are staged into.
    :param remote_monitoring_radio: how tasks report to Parsl's monitoring, as Parsl's ``UDPRadio``; where Parsl is
        loaded and none is given, through files in the run's folder.
    :param provider: a provider of Parsl's, with its launcher, in whose blocks workers run. The first blocks are
        submitted when the kernel starts.
    :param nodes: another placement of ``gristmill.on``, instead of a provider.
    :param blobs: how large arguments come to nodes (``gristmill.on.Blobs``).
    :param cpu_affinity: binds workers to cores, on this machine or in the blocks of a provider; a
        ``ConfigurationError`` with other nodes, whose placement says it.
    :param available_accelerators: how many GPUs there are, or their names: each worker sees one, on this machine or in
        the blocks of a provider, and there are no more workers than GPUs; a ``ConfigurationError`` with other nodes.
    :param launcher: of the provider, in the place of its own.
    :param cores_per_worker: for this and all others see ``gristmill.on.provider``; they mean nothing without one.
    :param port: where this program listens for the nodes of a provider, and ``group``, which nodes these are near to: a
        ``ConfigurationError`` with other nodes, whose placement says it.
    :param strategy: that of the configuration if ``None``; Parsl's own kernel does not tell, so it is ``simple`` there.
    :param max_idletime: that of the configuration if ``None``; 120 seconds under Parsl's own kernel.

    A task's ``parsl_resource_specification`` may hold ``priority``, an integer of which the lower runs earlier and all
    before the tasks without one; ``walltime``, the seconds after which it is interrupted, also inside compiled code,
    and its future raises ``gristmill.TaskTimeout``; and ``cores``, ``gpus`` (also a share of one) and ``memory`` in
    megabytes, as ``gristmill.Executor.options`` has them.
    """

    def __init__(
        self,
        label: str = "gristmill",
        max_workers: int | None = None,
        start_method: str = "fork",
        initializer: Callable[..., object] | None = None,
        initargs: tuple[Any, ...] = (),
        preload: Sequence[str] = (),
        threads_per_worker: int | None = None,
        max_tasks_per_child: int | None = None,
        task_limit: int | None = None,
        loss_retries: int = 0,
        storage_access: list[Any] | None = None,
        working_dir: str | None = None,
        remote_monitoring_radio: Any = None,
        provider: Any = None,
        nodes: Placement | None = None,
        blobs: Blobs | None = None,
        cores_per_worker: float = 1.0,
        mem_per_worker: float | None = None,
        max_workers_per_node: float | None = None,
        cpu_affinity: str = "none",
        block_error_handler: bool | ErrorHandler = True,
        strategy: str | None = None,
        max_idletime: float | None = None,
        address: str | None = None,
        interface: str | None = None,
        launcher: Any = None,
        available_accelerators: int | Sequence[str] = (),
        submissions: tuple[int, float] = (10, 10.0),
        is_folder_shared: bool = True,
        python: str | None = None,
        port: int = 0,
        group: str | None = None,
    ) -> None:
        super().__init__()
        self.label = label
        self.provider = provider
        self.nodes = nodes
        self.blobs = blobs
        self.cores_per_worker = cores_per_worker
        self.mem_per_worker = mem_per_worker
        self.max_workers_per_node = max_workers_per_node
        self.cpu_affinity = cpu_affinity
        self.block_error_handler = block_error_handler
        self.strategy = strategy
        self.max_idletime = max_idletime
        self.address = address
        self.interface = interface
        self.launcher = launcher
        self.available_accelerators = available_accelerators
        self.submissions = submissions
        self.is_folder_shared = is_folder_shared
        self.python = python
        self.port = port
        self.group = group
        #: The configuration, where it is the kernel here that starts this.
        self.config: Config | None = None
        self.max_workers = max_workers
        self.start_method = start_method
        self.initializer = initializer
        self.initargs = initargs
        self.preload = preload
        self.threads_per_worker = threads_per_worker
        self.max_tasks_per_child = max_tasks_per_child
        self.task_limit = task_limit
        self.loss_retries = loss_retries
        self.storage_access = storage_access
        self.working_dir = working_dir
        self.remote_monitoring_radio = remote_monitoring_radio or radio_of_parsl(
            "filesystem", "FilesystemRadio"
        )
        self._engine: _Engine | None = None
        #: What was submitted last.
        self._function: Callable[..., Any] | None = None

    def start(self) -> None:
        """Makes the engine; its workers start with the first task, but for the first blocks of a provider."""
        placement = placement_of(self)
        binding = Binding(self.max_workers) if placement is not None else bind_here(self)
        self._engine = _Engine(
            binding.workers,
            self.initializer,
            self.initargs,
            max_tasks_per_child=self.max_tasks_per_child,
            start=self.start_method,
            preload=(*self.preload, *preload_of_parsl(self)),
            threads_per_worker=self.threads_per_worker,
            task_limit=self.task_limit,
            nodes=placement,
            blobs=self.blobs,
            gpus=binding.gpus,
        )
        self._engine.told, self._engine.domains = binding.environment, binding.domains
        self._options = functools.lru_cache(_SPECIFICATIONS_MAX)(self._make_options)
        # What most tasks are submitted through, looked up once.
        self._submit = (
            self._options(Specification()).submit if self.loss_retries else self._engine.submit
        )
        if self.provider is not None and placement is not None and self.provider.init_blocks:
            # Memory is what an engine starts for if there is no task: jobs are to be in the queue by then.
            self._engine._allocate(1)

    @property
    def workers_per_node(self) -> float:
        """How many tasks a node is thought to run at the same time."""
        return guess_workers(self)

    def submit(
        self,
        func: Callable[..., Any],
        /,
        resource_specification: dict[str, Any],
        *args: Any,
        **kwargs: Any,
    ) -> Future[Any]:
        """Runs the call in a worker.

        Raises ``InvalidResourceSpecification``, ``UnpicklableError`` for what cannot be sent to a worker, and
        ``ShutDownError``.
        """
        if func is not self._function:
            # Parsl's way: an app is what it was when it was first sent, whatever its defaults hold by now.
            trust_contents(func)
            self._function = func
        if resource_specification:
            return self._options_for(read(resource_specification)).submit(func, *args, **kwargs)
        return self._submit(func, *args, **kwargs)

    def _options_for(self, specification: Specification) -> gristmill.TaskOptions:
        # What is kept would keep the context, too, which the program may have dropped.
        make = self._options if specification.context is None else self._make_options
        return make(specification)

    def make_lane(
        self, config: Any, tells: bool = False, context: gristmill.Context | None = None
    ) -> _native.AppLane:
        """The way into the engine for calls that it may run all by itself, with a configuration's budgets.

        :param tells: whether the engine's dispatcher is to learn of each task's end.
        :param context: what the calls run in.
        """
        assert self._engine is not None, "started"
        for_losses = getattr(config, "loss_retries", None)
        return _native.AppLane(
            self._engine,
            tells=tells,
            context=context,
            retries=config.retries,
            timeout_retries=config.retries,
            loss_retries=self.loss_retries + (config.retries if for_losses is None else for_losses),
        )

    def stats(self) -> dict[str, int]:
        """What the engine says of its tasks: how many have come to what."""
        return self._engine.stats() if self._engine is not None else {}

    def explain(self, future: Any) -> str:
        """Says why the task of a future does not run yet, or where it is, in a few sentences.

        :param future: of an app, under Gristmill's kernel or Parsl's, or one that ``submit`` gave.

        Raises ``TypeError`` for what is no future of a task of this executor.
        """
        if isinstance(future, (AppFuture, DataFuture)) and not isinstance(future, _native.Future):
            parent: Any = future.parent if isinstance(future, DataFuture) else future
            task = parent.task_record
            if task.executor == self.label:
                return str(task.dfk.explain(future))
        record = getattr(future, "task_record", None)
        if isinstance(record, dict) and record.get("executor") == self.label:
            future = record["exec_fu"]
            if future is None:
                return "It waits in the graph of Parsl's kernel for what is among its arguments."
        if self._engine is None:
            raise TypeError("this executor has not started, and has given no future")
        return self._engine.explain(future)

    def wait(self) -> None:
        """Waits until every task that exists now is final."""
        if self._engine is not None:
            self._engine._wait_all()

    def shutdown(self, block: bool = True, cancel_futures: bool = False) -> None:
        """Takes no more tasks and runs those it has.

        :param block: whether to return only when all are completed and no process is left.
        :param cancel_futures: cancels the tasks that have not started instead.
        """
        if self._engine is not None:
            self._engine.shutdown(block, cancel_futures=cancel_futures)
            # The engine, and its memory, end with the last future.
            self._options.cache_clear()
            self._function = None
        super().shutdown()

    def _make_options(self, specification: Specification) -> gristmill.TaskOptions:
        assert self._engine is not None, "started"
        return self._engine.options(loss_retries=self.loss_retries, **specification.options())
