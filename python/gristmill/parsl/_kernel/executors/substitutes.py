"""Substitutes for Parsl's executors in programs without Parsl.

Local worker processes are Gristmill's; all other executors need Parsl. Where Parsl is installed,
``gristmill.parsl.executors`` exports Parsl's own classes of these names instead.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from gristmill import _options, _resources, _worker_environment
from gristmill._nodes import accelerators, affinity
from gristmill.parsl._kernel.executors.engine import GristmillExecutor
from gristmill.parsl._kernel.parsl_detection import missing, need
from gristmill.parsl._kernel.providers import LocalProvider

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

__all__ = [
    "FluxExecutor",
    "GlobusComputeExecutor",
    "HighThroughputExecutor",
    "MPIExecutor",
    "RadicalPilotExecutor",
    "TaskVineExecutor",
    "TaskVineFactoryConfig",
    "TaskVineManagerConfig",
    "WorkQueueExecutor",
]

FluxExecutor = missing("FluxExecutor", "parsl[flux]")
GlobusComputeExecutor = missing("GlobusComputeExecutor", "parsl[globus-compute]")
MPIExecutor = missing("MPIExecutor")
RadicalPilotExecutor = missing("RadicalPilotExecutor", "parsl[radical-pilot]")
TaskVineExecutor = missing("TaskVineExecutor", "parsl", "ndcctools")
TaskVineFactoryConfig = missing("TaskVineFactoryConfig", "parsl", "ndcctools")
TaskVineManagerConfig = missing("TaskVineManagerConfig", "parsl", "ndcctools")
WorkQueueExecutor = missing("WorkQueueExecutor", "parsl[workqueue]", "ndcctools")

_GIGABYTE = 1 << 30


class HighThroughputExecutor(GristmillExecutor):
    """An executor with Gristmill's workers on this machine, for a configuration that was written for Parsl's executor.

    This class is used where Parsl is not installed. Where it is, the name is that of Parsl's own executor.

    :param provider: a ``LocalProvider``, which is the default.
    :param max_workers_per_node: worker processes; as many as CPUs and memory allow if not given.
    :param cores_per_worker: cores that each worker is expected to use.
    :param mem_per_worker: memory that each worker is expected to use, gigabytes.
    :param cpu_affinity: binds workers to CPUs.
    :param available_accelerators: the number of GPUs, or their names. Each worker sees one GPU, and there are no more
        workers than GPUs.
    :param storage_access: staging providers for files; the kernel's own list if ``None``.
    :param working_dir: the folder that files are staged into.

    Arguments about the network between Parsl's processes (addresses, ports, heartbeats, encryption) and about their
    logs are kept and not used: there is no network. Raises ``OptionalModuleMissing`` for features that only Parsl has:
    another provider, ``launch_cmd``, ``worker_init``.
    """

    provider: Any
    max_workers_per_node: float | None
    cores_per_worker: float
    mem_per_worker: float | None

    def __init__(
        self,
        label: str = "HighThroughputExecutor",
        provider: Any = None,
        launch_cmd: str | None = None,
        interchange_launch_cmd: Sequence[str] | None = None,
        address: str | None = None,
        loopback_address: str = "127.0.0.1",
        worker_port: int | None = None,
        worker_port_range: tuple[int, int] | None = (54000, 55000),
        interchange_port_range: tuple[int, int] | None = (55000, 56000),
        storage_access: list[Any] | None = None,
        working_dir: str | None = None,
        worker_debug: bool = False,
        cores_per_worker: float = 1.0,
        mem_per_worker: float | None = None,
        max_workers_per_node: float | None = None,
        cpu_affinity: str = "none",
        available_accelerators: int | Sequence[str] = (),
        prefetch_capacity: int = 0,
        heartbeat_threshold: int = 120,
        heartbeat_period: int = 30,
        drain_period: int | None = None,
        poll_period: int = 10,
        address_probe_timeout: int | None = None,
        worker_logdir_root: str | None = None,
        manager_selector: Any = None,
        block_error_handler: bool | Callable[..., None] = True,
        encrypted: bool = True,
        remote_monitoring_radio: Any = None,
    ) -> None:
        given = {name: value for name, value in locals().items() if name not in _NOT_FIELDS}
        _refuse_what_needs_parsl(given)
        super().__init__(
            label=label,
            storage_access=storage_access,
            working_dir=working_dir,
            remote_monitoring_radio=remote_monitoring_radio,
        )
        _check_sizes(max_workers_per_node, cores_per_worker, mem_per_worker)
        accelerators.to_text(available_accelerators)
        affinity.checked(cpu_affinity)
        for name, value in given.items():
            setattr(self, name, value)
        self.provider = provider if provider is not None else LocalProvider()
        self.max_workers = self._count_workers()

    @property
    def workers_per_node(self) -> int:
        """The number of workers: all of them are on this machine."""
        assert self.max_workers is not None, "counted when this was made"
        return self.max_workers

    def _count_workers(self) -> int:
        pinned = accelerators.count(self.available_accelerators)
        fitting = self._count_fitting()
        return min(fitting, pinned) if pinned else fitting

    def _count_fitting(self) -> int:
        on_machine = _worker_environment.usable_cores() / self.cores_per_worker
        if self.mem_per_worker:
            on_machine = min(
                on_machine, _resources.memory_size() / (self.mem_per_worker * _GIGABYTE)
            )
        asked_for = self.max_workers_per_node
        if asked_for is None or math.isinf(asked_for):
            return max(1, math.floor(on_machine))
        # Parsl also runs as many workers as were asked for, even if there are fewer CPUs.
        if self.mem_per_worker:
            asked_for = min(asked_for, on_machine)
        nodes: int = self.provider.max_blocks * self.provider.nodes_per_block
        return max(1, math.floor(asked_for)) * max(1, nodes)


def _check_sizes(workers: object, cores: object, memory: object) -> None:
    """Raises ``TypeError`` or ``ValueError`` for sizes that are no numbers or out of range."""
    if workers is not None and not _options.is_infinite(workers):
        _options.number("max_workers_per_node", workers, 0, _options.SHORT_MAX)
    _options.number("cores_per_worker", cores, 0.001, _options.SHORT_MAX)
    if memory is not None:
        _options.number("mem_per_worker", memory, 0, _options.LONG_MAX)


_NOT_FIELDS = frozenset({"self", "__class__", "remote_monitoring_radio"})


def _refuse_what_needs_parsl(given: dict[str, Any]) -> None:
    provider = given["provider"]
    if provider is not None and not isinstance(provider, LocalProvider):
        need(f"a HighThroughputExecutor with a {type(provider).__name__} is a part of Parsl")
    if provider is not None and provider.worker_init:
        need(
            "worker_init runs in the shell that starts Parsl's workers, and Gristmill starts "
            "none; do it before the program starts, or let Parsl do it"
        )
    for name in ("launch_cmd", "interchange_launch_cmd"):
        if given[name] is not None:
            need(f"{name}={given[name]!r} is a setting of Parsl's own workers")
