"""The CPUs and GPUs that the workers of ``GristmillExecutor`` on this machine are bound to."""

from __future__ import annotations

import os
from types import MappingProxyType
from typing import TYPE_CHECKING, NamedTuple

from gristmill import _native
from gristmill._nodes import accelerators, affinity
from gristmill._resources import GPUS_MAX

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from gristmill.parsl._kernel.executors.engine import GristmillExecutor


class Binding(NamedTuple):
    """The resources that an engine on this machine is made with."""

    #: Worker processes, at most one for each GPU if workers are pinned to GPUs. ``None`` means as many as there are
    #: CPUs.
    workers: int | None
    #: GPUs that tasks may ask for. ``None`` means all GPUs that are found.
    gpus: int | None = None
    #: Environment variables for the workers.
    environment: Mapping[str, str] = MappingProxyType({})
    #: A bit mask of NUMA nodes for each worker, as ``affinity.numa_nodes`` returns it. Empty if workers are not bound.
    numa_nodes: Sequence[int] = ()


def bind_here(executor: GristmillExecutor) -> Binding:
    """Returns the binding of an executor on this machine. Raises ``ValueError`` for resources the machine lacks."""
    workers, gpus = executor.max_workers, None
    environment: dict[str, str] = {}
    numa_nodes: list[int] = []
    text = accelerators.to_text(executor.available_accelerators)
    if text is not None:
        of_workers = accelerators.sets(text)
        workers = min(workers or _native.cpu_count(), len(of_workers))
        gpus = min(GPUS_MAX, len(accelerators.devices(of_workers)))
        environment[accelerators.VARIABLE] = ":".join(of_workers)
    cores = sorted(os.sched_getaffinity(0))
    count = workers or _native.cpu_count()
    sets = affinity.core_sets(executor.cpu_affinity, cores, count)
    if sets is not None:
        environment[affinity.VARIABLE] = affinity.to_text(sets)
        numa_nodes = affinity.numa_nodes(sets, count)
    return Binding(workers, gpus, environment, numa_nodes)
