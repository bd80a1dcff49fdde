"""What the workers of ``GristmillExecutor`` on this machine are bound to: cores, and GPUs of their own."""

from __future__ import annotations

import os
from types import MappingProxyType
from typing import TYPE_CHECKING, NamedTuple

from gristmill import _native
from gristmill._nodes import accelerators, affinity
from gristmill._resources import GPUS_MAX

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from gristmill.parsl.executors.engine import GristmillExecutor


class Binding(NamedTuple):
    """What an engine of this machine is made with."""

    #: No more than there are GPUs for, if workers are pinned to these; ``None``: as many as there are cores.
    workers: int | None
    #: GPUs that tasks may ask for; ``None``: all that are found.
    gpus: int | None = None
    #: What workers are told by their environment.
    environment: Mapping[str, str] = MappingProxyType({})
    #: What each worker's cores are near to, as ``affinity.domains`` gives it; empty: workers are not bound.
    domains: Sequence[int] = ()


def bind_here(executor: GristmillExecutor) -> Binding:
    """What an executor's fields come to on this machine. Raises ``ValueError`` for what it has not."""
    workers, gpus = executor.max_workers, None
    environment: dict[str, str] = {}
    domains: list[int] = []
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
        domains = affinity.domains(sets, count)
    return Binding(workers, gpus, environment, domains)
