"""The resources that an agent offers: workers, memory, GPUs, and the cores and GPUs that each worker is bound to.

If several agents share a node, each offers its part, so that nothing is offered twice.
"""

from __future__ import annotations

import argparse
import dataclasses
import os

from gristmill import _resources
from gristmill._nodes import accelerators, affinity, core_choice
from gristmill._nodes.parts import WHOLE, Part, number_in, part_of_rank, read_part

_GIGABYTE = 1e9


@dataclasses.dataclass(frozen=True)
class Share:
    """The resources that an agent offers."""

    workers: int
    #: Bytes.
    memory: int
    gpus: int
    #: The environment variables for the workers.
    environment: dict[str, str]
    #: The number of cores that the workers share.
    cores: int
    #: The NUMA nodes of each worker's cores, as ``affinity.numa_nodes`` returns them; empty if workers are not bound.
    numa_nodes: tuple[int, ...] = ()
    #: The GPUs that each worker is pinned to, as a bit mask; empty if workers are not pinned.
    pins: tuple[int, ...] = ()


def measure(options: argparse.Namespace) -> Share:
    """Computes what this node offers from the command's options. Raises ``ValueError`` for what no node can offer."""
    is_rank = options.part is None
    part = read_part(options.part) if options.part else part_of_rank() if options.rank else WHOLE
    cores, count = _cores(part, is_rank)
    if options.cores is not None:
        cores, count = _some(cores, count, options)
    memory = options.memory * _GIGABYTE if options.memory else _resources.memory_size() / part.count
    workers = options.workers
    if workers is None:
        workers = fitting(count, memory, options.cores_per_worker, options.memory_per_worker)
    if workers < 1:
        raise ValueError("a node needs at least one worker")
    gpus, environment = _gpus(options.gpus, part, is_rank)
    pins: list[int] = []
    if options.accelerators is not None:
        there = _resources.visible(environment.get(_resources.DEVICE_VARIABLES[0], ""))
        of_workers = accelerators.sets(options.accelerators, there or _resources.gpu_names())
        workers = min(workers, len(of_workers))
        gpus = min(_resources.GPUS_MAX, len(accelerators.devices(of_workers)))
        environment[accelerators.VARIABLE] = ":".join(of_workers)
        pins = accelerators.pins(of_workers)[:workers]
    sets = affinity.core_sets(options.cpu_affinity, cores, workers)
    numa_nodes: list[int] = []
    if sets is not None:
        environment[affinity.VARIABLE] = affinity.to_text(sets)
        numa_nodes = affinity.numa_nodes(sets, workers)
    return Share(workers, int(memory), gpus, environment, count, tuple(numa_nodes), tuple(pins))


def fitting(
    cores: int, memory: float, cores_per_worker: float, memory_per_worker: float | None
) -> int:
    """Returns how many workers fit, at least one.

    ``cores`` and ``cores_per_worker`` are numbers of cores, ``memory`` is bytes and ``memory_per_worker`` gigabytes.
    Raises ``ValueError`` for a worker without a size.
    """
    if cores_per_worker <= 0 or (memory_per_worker is not None and memory_per_worker <= 0):
        raise ValueError("a worker needs a part of a core, and some memory")
    count = cores / cores_per_worker
    if memory_per_worker is not None:
        count = min(count, memory / (memory_per_worker * _GIGABYTE))
    return max(1, int(count))


def _cores(part: Part, is_rank: bool) -> tuple[list[int], int]:
    """Returns the cores of a part, and how many of them can be used at a time."""
    from gristmill import _native

    cores = sorted(os.sched_getaffinity(0))
    count = min(_native.cpu_count(), number_in("PARSL_CORES") or _native.cpu_count())
    # A launcher may have bound each rank to its own cores: then this process sees fewer than the node has.
    there = number_in("SLURM_CPUS_ON_NODE") or os.cpu_count() or 1
    if part.count == 1 or (is_rank and len(cores) < there):
        return cores, count
    return part.of(cores) or [cores[part.number % len(cores)]], max(1, count // part.count)


def _some(cores: list[int], count: int, options: argparse.Namespace) -> tuple[list[int], int]:
    """Returns the cores to use if the agent's starter has reserved a number of cores, but not which ones."""
    wanted: int = options.cores
    if wanted < 1:
        raise ValueError("a node needs at least one core")
    if wanted < len(cores) and affinity.chooses(options.cpu_affinity):
        cores = core_choice.choose(cores, wanted)
    return cores, min(count, wanted)


def _gpus(wanted: int | None, part: Part, is_rank: bool) -> tuple[int, dict[str, str]]:
    """Returns the number of a part's GPUs, and variables that name them. Raises ``ValueError`` for too many GPUs."""
    there = _resources.gpu_count()
    if wanted is not None and not 0 <= wanted <= _resources.GPUS_MAX:
        raise ValueError(f"a node has at most {_resources.GPUS_MAX} GPUs")
    if part.count == 1 or wanted == 0 or (is_rank and _has_gpus_of_its_own(there)):
        return there if wanted is None else wanted, {}
    if wanted is None:
        numbers = part.of(range(there))
    else:  # if no GPU is detected, the requested number is trusted
        first = part.number * wanted
        numbers = [one for one in range(first, first + wanted) if one < there or not there]
    if not numbers:
        # oneAPI has no value for no GPU, and without GPUs there is nothing to hide.
        return 0, dict.fromkeys(_resources.DEVICE_VARIABLES[:2], "-1") if there else {}
    return len(numbers), {name: _named(name, numbers) for name in _resources.DEVICE_VARIABLES}


def _has_gpus_of_its_own(visible: int) -> bool:
    """Returns whether a launcher or its script has bound this rank to GPUs: it sees fewer than its job has here."""
    if visible and visible == number_in("SLURM_GPUS_PER_TASK"):
        return True
    return visible < (number_in("SLURM_GPUS_ON_NODE") or _resources.gpus_of_machine())


def _named(variable: str, numbers: list[int]) -> str:
    """Returns the names of GPUs for one kind of library, in an order that all agents of a node agree on."""
    names = _resources.visible(os.environ.get(variable, ""))
    names.sort(key=lambda name: (int(name) if name.isdigit() else -1, name))
    return ",".join(names[one] if one < len(names) else str(one) for one in numbers)
