"""Gristmill's engine as an executor of the kernel here and, in an unchanged configuration, of Parsl's own kernel.

Its workers are on this machine, on the nodes of a placement, or in the blocks of a provider. The engine scales blocks
itself under either kernel: Parsl's own poller would submit the first block only after its period, and cannot see when
nodes join.

The kernel resolves dependencies before it submits, so the engine sees plain calls. Its futures are returned as they
are: one more attribute would cost each task a dictionary.
"""

from __future__ import annotations

import atexit
import functools
from types import MappingProxyType
from typing import TYPE_CHECKING

import gristmill
from gristmill import _creation_sites, _forked, _native, _options
from gristmill._captures import trust_defaults
from gristmill.parsl._kernel.executors import ending
from gristmill.parsl._kernel.executors.base import ParslExecutor, check_files, radio_of_parsl
from gristmill.parsl._kernel.executors.binding import Binding, bind_here
from gristmill.parsl._kernel.executors.blocks import (
    guess_workers,
    network_of,
    placement_of,
    preload_of_parsl,
)
from gristmill.parsl._kernel.executors.specification import Specification, read
from gristmill.parsl._kernel.executors.telling import TellsOfBlocks
from gristmill.parsl._kernel.futures import AppFuture, DataFuture

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from concurrent.futures import Future
    from typing import Any

    from gristmill._nodes.blobs import Blobs
    from gristmill._nodes.block_status import ErrorHandler
    from gristmill._nodes.placement import Placement
    from gristmill.parsl._kernel.config import Config

#: Number of different specifications whose options are cached: programs use a few levels of priority, not thousands.
_SPECIFICATIONS_MAX = 256


class _Engine(gristmill.Executor):
    """An engine that loads Parsl once for all workers if Parsl's kernel wraps the submitted functions."""

    #: Environment variables for the workers of this machine, in addition to this program's.
    variables: Mapping[str, str] = MappingProxyType({})
    #: A bit mask of the NUMA nodes of each of their CPU slots.
    numa_nodes: Sequence[int] = ()

    def _join_worker(self) -> None:
        # It stands for no other: futures of apps do not run on the executor that runs a task.
        self._made_at = _creation_sites.where()

    def _describe_worker_environment(self, function: object = None) -> tuple[bytes, dict[str, Any]]:
        home = getattr(function, "__globals__", {}).get("__name__", "")
        if home.startswith("parsl."):
            # Without the preload, each worker would need a second and 20 MB of its own for the import.
            self._steps.preload = (*self._steps.preload, home)
        environment, program = super()._describe_worker_environment(function)
        program["environment"] += [
            f"{name}={text}".encode() for name, text in self.variables.items()
        ]
        program["numa_nodes"] = list(self.numa_nodes)
        return environment, program


class GristmillExecutor(TellsOfBlocks, ParslExecutor):
    """An executor that runs tasks in worker processes of this machine, or of nodes. They start with the first task.

    :param max_workers: worker processes; the CPUs this process may use if not given. On nodes, the limit for each node.
    :param start_method: ``"fork"`` forks workers from a warm zygote; ``"spawn"`` starts an interpreter for each.
    :param initializer: called in each worker before its first task, with ``initargs``.
    :param preload: names of modules that are imported once for all workers.
    :param start_timeout: seconds that these imports may take, and each call of ``initializer``; no limit if ``None``.
    :param threads_per_worker: threads that BLAS and OpenMP may use in each worker; its share of the CPUs if not given.
    :param max_tasks_per_child: a worker is replaced after this many tasks; never if not given.
    :param task_limit: tasks that may be outstanding before ``submit`` blocks; if not given, 16 million or as many as
        fit into a quarter of memory.
    :param loss_retries: how often a task whose worker died is run again before its future raises ``WorkerLostError``,
        in addition to the retries of the kernel.
    :param storage_access: staging providers for files; the kernel's own list if ``None``.
    :param working_dir: the folder that files are staged into.
    :param remote_monitoring_radio: how tasks report to Parsl's monitoring, such as Parsl's ``UDPRadio``. If none is
        given and Parsl is loaded, tasks report through files in the run's folder.
    :param provider: a provider of Parsl's, with its launcher, in whose blocks workers run. The first blocks are
        submitted when the kernel starts.
    :param nodes: another placement of ``gristmill.on``, instead of a provider.
    :param blobs: how large arguments reach nodes (``gristmill.on.Blobs``).
    :param cpu_affinity: binds workers to CPUs, on this machine or in the blocks of a provider. With other nodes it
        raises ``ConfigurationError``: their placement has this option.
    :param available_accelerators: the number of GPUs, or their names. Each worker sees one GPU, on this machine or in
        the blocks of a provider, and there are no more workers than GPUs. With other nodes it raises
        ``ConfigurationError``.
    :param launcher: replaces the launcher of the provider.
    :param cores_per_worker: this parameter and those that are not in this list, except ``label``, are parameters of
        ``gristmill.on.provider`` or (``address`` and ``interface``) of ``gristmill.on.Network``. They need a provider.
    :param port: the port where this program listens for the nodes of a provider; ``group`` names their group of near
        nodes. With other nodes both raise ``ConfigurationError``: their placement has these options.
    :param strategy: the configuration's strategy if ``None``. Parsl's own kernel does not pass its strategy on, so it
        is ``simple`` there.
    :param max_idletime: the configuration's value if ``None``; 120 seconds under Parsl's own kernel.

    A task's ``parsl_resource_specification`` may hold these keys:

    * ``priority``: an integer. Tasks with a lower number run earlier, as in Parsl (the ``priority`` of
      ``gristmill.Executor.options`` has the opposite order). A task without a priority runs after all that have one.
    * ``walltime``: seconds after which the task is interrupted, even inside compiled code. Its future then raises
      ``gristmill.TaskTimeoutError``.
    * ``cores``, ``gpus`` (also a fraction of one) and ``memory`` in megabytes, as in ``gristmill.Executor.options``.
    * ``context``: the ``gristmill.Context`` that the task runs in.
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
        start_timeout: float | None = _options.START_SECONDS,
    ) -> None:
        super().__init__()
        self.label = _options.text("label", label)
        check_files(storage_access, working_dir)
        if initializer is not None:
            _options.function("initializer", initializer)
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
        #: The configuration, if Gristmill's kernel starts this executor.
        self.config: Config | None = None
        # Checked here, by the names the user wrote: the engine, which the kernel starts later, has other names for
        # some.
        if address is not None or interface is not None:
            network_of(self)
        _options.texts("preload", preload, "module names")
        _options.one_of("start_method", start_method, ("fork", "spawn"))
        self.max_workers = _options.workers("max_workers", max_workers)
        self.start_method = start_method
        self.initializer = initializer
        self.initargs = initargs
        self.preload = preload
        self.start_timeout = _options.optional_seconds(
            "start_timeout", start_timeout, is_positive=True
        )
        self.threads_per_worker = _options.optional_count(
            "threads_per_worker", threads_per_worker, 1, _options.SHORT_MAX
        )
        self.max_tasks_per_child = _options.optional_count(
            "max_tasks_per_child", max_tasks_per_child, 1, _options.LONG_MAX
        )
        self.task_limit = _options.optional_count("task_limit", task_limit)
        self.loss_retries = _options.count("loss_retries", loss_retries, 0, _options.SHORT_MAX)
        self.storage_access = storage_access
        self.working_dir = working_dir
        self.remote_monitoring_radio = remote_monitoring_radio
        if remote_monitoring_radio is None:
            self.remote_monitoring_radio = radio_of_parsl("filesystem", "FilesystemRadio")
        self._engine: _Engine | None = None
        #: Identifies the exception that was handled when this executor started.
        self._handled_at_start: dict[str, Any] | None = None
        #: The function that was submitted last.
        self._function: Callable[..., Any] | None = None

    def start(self) -> None:
        """Makes the engine. Workers start with the first task, and the first blocks of a provider start now.

        Raises ``ConfigurationError`` if another kernel that has not ended uses this executor.
        """
        self._refuse_second_kernel()
        placement = placement_of(self)
        binding = Binding(self.max_workers) if placement is not None else bind_here(self)
        self._engine = _Engine(
            binding.workers,
            self.initializer,
            self.initargs,
            max_tasks_per_child=self.max_tasks_per_child,
            start=self.start_method,
            preload=(*self.preload, *preload_of_parsl(self)),
            start_timeout=self.start_timeout,
            threads_per_worker=self.threads_per_worker,
            task_limit=self.task_limit,
            nodes=placement,
            blobs=self.blobs,
            gpus=binding.gpus,
        )
        self._running_in = _forked.process_generation()
        self._engine.variables, self._engine.numa_nodes = binding.environment, binding.numa_nodes
        self._handled_at_start = ending.handled_now()
        atexit.register(self._abandon_at_exit)
        self._options = functools.lru_cache(_SPECIFICATIONS_MAX)(self._make_options)
        # The submit function of most tasks, looked up once.
        self._submit = (
            self._options(Specification()).submit if self.loss_retries else self._engine.submit
        )
        if self.provider is not None and placement is not None and self.provider.init_blocks:
            # An allocation starts the engine without a task, so that the first jobs are in the batch queue after this
            # call.
            self._engine._allocate(1)

    @property
    def workers_per_node(self) -> float:
        """The expected number of tasks that a node runs at the same time."""
        return guess_workers(self)

    def submit(
        self,
        func: Callable[..., Any],
        /,
        resource_specification: dict[str, Any],
        *args: Any,
        **kwargs: Any,
    ) -> Future[Any]:
        """Submits the call to a worker.

        Raises ``InvalidResourceSpecification``, ``UnpicklableError`` for objects that cannot be sent to a worker, and
        ``ShutDownError``.
        """
        if func is not self._function:
            # As in Parsl, an app keeps the defaults that it had when it was first sent, even if they change later.
            trust_defaults(func)
            self._function = func
        if resource_specification:
            return self._options_for(read(resource_specification)).submit(func, *args, **kwargs)
        return self._submit(func, *args, **kwargs)

    def _options_for(self, specification: Specification) -> gristmill.BoundExecutor:
        # A task with a context is not cached: the cache would keep the context alive after the program dropped it.
        make = self._options if specification.context is None else self._make_options
        return make(specification)

    def make_lane(
        self, config: Any, tells: bool = False, context: gristmill.Context | None = None
    ) -> _native.AppFastPath:
        """Makes the engine's submit path for calls that it may run alone, with a configuration's retry limits.

        :param tells: whether the engine reports the end of each task to its dispatcher.
        :param context: the context that the calls run in.
        """
        assert self._engine is not None, "started"
        for_losses = getattr(config, "loss_retries", None)
        losses = self.loss_retries + (config.retries if for_losses is None else for_losses)
        # The engine cannot count more attempts than this.
        retries = min(config.retries, _options.SHORT_MAX)
        options = gristmill.TaskOptions(
            context=context,
            retries=retries,
            timeout_retries=retries,
            loss_retries=min(losses, _options.SHORT_MAX),
        )
        return _native.AppFastPath(self._engine, options, tells)

    def stats(self) -> gristmill.Stats:
        """Returns the engine's counts of tasks by outcome."""
        return self._engine.stats() if self._engine is not None else gristmill.Stats()

    def explain(self, future: Any) -> str:
        """Explains why the task of a future does not run yet, or where it is, in a few sentences.

        :param future: of an app, under Gristmill's kernel or Parsl's, or one that ``submit`` returned.

        Raises ``TypeError`` if the future belongs to no task of this executor.
        """
        if isinstance(future, (AppFuture, DataFuture)) and not isinstance(future, _native.Future):
            parent: Any = future.parent if isinstance(future, DataFuture) else future
            if parent is None:
                return f"Task {future.tid} has ended."
            task = parent.task_record
            if task["executor"] == self.label:
                return str(task.dfk.explain(future))
        record = getattr(future, "task_record", None)
        if isinstance(record, dict) and record.get("executor") == self.label:
            future = record["exec_fu"]
            if future is None:
                return (
                    "It waits in the graph of Parsl's kernel for the futures among its arguments."
                )
        if self._engine is None:
            raise TypeError("this executor has not started, and has returned no future")
        return self._engine.explain(future)

    def wait(self) -> None:
        """Waits until every task that exists now is final."""
        if self._engine is not None:
            self._engine._wait_all()

    def shutdown(self, block: bool = True, cancel_futures: bool = False) -> None:
        """Takes no more tasks, and runs those it has.

        While an exception is handled that was raised since the start, Ctrl-C for example, it does not wait for tasks:
        those that have not started are cancelled, those that run or that nodes have are stopped, and the jobs of blocks
        are cancelled. Parsl's executors end so always.

        :param block: whether to return only when all tasks are final and no process is left.
        :param cancel_futures: cancels the tasks that have not started instead of running them.
        """
        if self._engine is not None:
            error = ending.handled_since(self._handled_at_start)
            if block and error is not None:
                self._abandon(error)
            try:
                self._engine.shutdown(block, cancel_futures=cancel_futures)
            finally:
                self._running_in = None
            atexit.unregister(self._abandon_at_exit)
            # The engine and its memory live until the last future is gone. The cached options must not extend that.
            self._options.cache_clear()
            self._function = None
        super().shutdown()

    def _abandon(self, error: BaseException) -> None:
        """Cancels the tasks that have not started, and stops all others. Nodes are not asked what they have started."""
        assert self._engine is not None, "started"
        name = type(error).__name__
        self._engine._abandon(f"the program ended after {name}, before the task did")

    def _abandon_at_exit(self) -> None:
        error = ending.uncaught()
        if error is not None:
            self._abandon(error)

    def _make_options(self, specification: Specification) -> gristmill.BoundExecutor:
        assert self._engine is not None, "started"
        return self._engine.options(loss_retries=self.loss_retries, **specification.options())
