"""How much of its node an agent offers: workers, memory, and the cores that each worker is bound to."""

from __future__ import annotations

import argparse
import dataclasses
import os

from gristmill import _resources
from gristmill._nodes import accelerators, affinity

_GIGABYTE = 1e9
#: What launchers say of a rank: its number, and how many ranks there are on its node.
_RANK = ("PMIX_RANK", "OMPI_COMM_WORLD_RANK", "PMI_RANK", "PALS_RANKID", "SLURM_PROCID")
_RANKS_HERE = (
    "OMPI_COMM_WORLD_LOCAL_SIZE",
    "MPI_LOCALNRANKS",
    "PALS_LOCAL_SIZE",
    "SLURM_NTASKS_PER_NODE",
)


@dataclasses.dataclass(frozen=True)
class Share:
    """What is offered."""

    workers: int
    #: Bytes.
    memory: int
    gpus: int
    #: What workers are told by their environment.
    environment: dict[str, str]


def measure(options: argparse.Namespace) -> Share:
    """What the command's options come to on this node. Raises ``ValueError`` for what no node can offer."""
    from gristmill import _native

    cores = sorted(os.sched_getaffinity(0))
    count = min(_native.cpu_count(), _number("PARSL_CORES") or _native.cpu_count())
    memory = options.memory * _GIGABYTE if options.memory else _resources.memory_size()
    if options.rank and len(cores) == os.cpu_count():
        # Nobody has bound the ranks to cores of their own.
        ranks = _number(*_RANKS_HERE) or 1
        count, memory = max(1, count // ranks), memory / ranks
    workers = options.workers
    if workers is None:
        workers = fitting(count, memory, options.cores_per_worker, options.memory_per_worker)
    if workers < 1:
        raise ValueError("there must be at least one worker")
    gpus = _resources.gpu_count() if options.gpus is None else options.gpus
    environment = {}
    if options.accelerators is not None:
        of_workers = accelerators.sets(options.accelerators)
        workers = min(workers, len(of_workers))
        gpus = min(_resources.GPUS_MAX, len(accelerators.devices(of_workers)))
        environment[accelerators.VARIABLE] = ":".join(of_workers)
    sets = affinity.core_sets(options.cpu_affinity, cores, workers)
    if sets is not None:
        environment[affinity.VARIABLE] = affinity.to_text(sets)
    if not 0 <= gpus <= _resources.GPUS_MAX:
        raise ValueError(f"a node has at most {_resources.GPUS_MAX} GPUs")
    return Share(workers, int(memory), gpus, environment)


def fitting(
    cores: int, memory: float, cores_per_worker: float, memory_per_worker: float | None
) -> int:
    """How many workers fit, at least one; sizes are a number of cores and bytes, those of a worker cores and gigabytes.

    Raises ``ValueError`` for a worker without a size.
    """
    if cores_per_worker <= 0 or (memory_per_worker is not None and memory_per_worker <= 0):
        raise ValueError("a worker needs some part of a core, and some memory")
    count = cores / cores_per_worker
    if memory_per_worker is not None:
        count = min(count, memory / (memory_per_worker * _GIGABYTE))
    return max(1, int(count))


def rank() -> int:
    """The number of this rank among those that one launcher has started; 0 without a launcher."""
    return _number(*_RANK) or 0


def _number(*variables: str) -> int | None:
    """The first of these variables that holds a number."""
    texts = (os.environ.get(variable, "") for variable in variables)
    return next((int(text) for text in texts if text.isdigit()), None)
