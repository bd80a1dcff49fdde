"""CPU affinity of a node's workers."""

from __future__ import annotations

import functools
import glob
import operator
import os

from gristmill import _options

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

#: The folder in which Linux lists the NUMA nodes and their cores.
FOLDER = "/sys/devices/system/node"
#: The environment variable in which an agent passes the cores to its workers.
VARIABLE = "GRISTMILL_NODE_CORES"
_POLICIES = ("none", "numa", "block", "block-reverse", "alternating")
#: The prefix of a policy that names cores.
_LIST = "list:"
#: The number of NUMA nodes that a bit mask can tell apart.
_DOMAINS_MAX = 64

#: The cores of each slot's worker if workers are bound; below, the slot of this worker.
_sets: list[set[int]] = []
_slot = 0


def core_sets(policy: str, cores: Sequence[int], workers: int) -> list[list[int]] | None:
    """Returns the cores of each worker, or ``None`` if workers are not bound.

    :param policy: ``none``; ``numa``: each worker gets the cores of one NUMA node if that has room for the worker's
        share, otherwise those of as few NUMA nodes as possible; ``block``: neighbouring cores together, the first
        worker on the first cores; ``block-reverse``: the first worker on the last cores; ``alternating``: cores are
        dealt out one by one; ``list:0,1:2,3``: the named cores, with colons between workers.
    :param cores: the available cores.
    :param workers: the number of workers that share the cores.

    Raises ``ValueError`` for any other policy and for named cores that are not available.
    """
    if checked(policy) == "none":
        return None
    if policy == "numa":
        return _near(numa_parts(cores), workers)
    if policy.startswith(_LIST):
        return _named(policy.removeprefix(_LIST), cores)
    share = max(1, len(cores) // workers)
    if policy == "alternating":
        return [
            list(cores[number::workers]) or [cores[number % len(cores)]]
            for number in range(workers)
        ]
    blocks = [
        [cores[(number * share + place) % len(cores)] for place in range(share)]
        for number in range(workers)
    ]
    return blocks if policy == "block" else blocks[::-1]


def checked(policy: str) -> str:
    """Returns the policy if it is valid. Raises ``TypeError`` if it is no text and ``ValueError`` if it is unknown."""
    if not isinstance(policy, str):
        raise TypeError(f"cpu_affinity must be a text, not {_options.shown(policy)}")
    if policy.startswith(_LIST):
        _read(policy.removeprefix(_LIST))
    elif policy not in _POLICIES:
        raise ValueError(
            f"cpu_affinity {_options.shown(policy)} is none of {', '.join(_POLICIES)} and {_LIST}..."
        )
    return policy


def chooses(policy: str) -> bool:
    """Returns whether the policy binds workers to cores that it does not name itself."""
    return policy != "none" and not policy.startswith(_LIST)


def numa_parts(cores: Sequence[int]) -> list[list[int]]:
    """Returns the cores grouped by NUMA node: one list for each NUMA node that has some of them."""
    parts = []
    for path in sorted(glob.glob(f"{FOLDER}/node[0-9]*/cpulist"), key=_number):
        with open(path) as file:
            near = _ranges(file.read())
        parts.append([core for core in cores if core in near])
    return [part for part in parts if part] or [list(cores)]


def _number(path: str) -> int:
    return int(os.path.basename(os.path.dirname(path)).removeprefix("node"))


def _near(parts: Sequence[Sequence[int]], workers: int) -> list[list[int]]:
    """Returns the cores of each worker: of the NUMA node with the most room, or of as few NUMA nodes as possible."""
    share = max(1, sum(map(len, parts)) // workers)
    room = [0] * len(parts)
    sets = []
    for _ in range(workers):
        if sum(room) < share:  # every core is assigned: start another round
            room = [left + len(part) for left, part in zip(room, parts, strict=True)]
        wanted, chosen = share, []
        while wanted:
            one = max(range(len(parts)), key=room.__getitem__)
            taken = min(wanted, room[one])
            room[one] -= taken
            wanted -= taken
            chosen.append(one)
        sets.append([core for one in sorted(chosen) for core in parts[one]])
    return sets


def numa_nodes(sets: Sequence[Sequence[int]], workers: int) -> list[int]:
    """Returns the NUMA nodes of each worker's cores as a bit mask."""
    parts = numa_parts(sorted({core for one in sets for core in one}))
    of_core = {
        core: 1 << (number % _DOMAINS_MAX) for number, part in enumerate(parts) for core in part
    }
    bits = [functools.reduce(operator.or_, (of_core.get(core, 0) for core in one)) for one in sets]
    return [bits[number % len(bits)] for number in range(workers)]


def _ranges(text: str) -> set[int]:
    """Returns the numbers of a list such as ``0-3,8``."""
    numbers: set[int] = set()
    for part in text.strip().split(","):
        first, _, last = part.partition("-")
        if first:
            numbers.update(range(int(first), int(last or first) + 1))
    return numbers


def _read(text: str) -> list[list[int]]:
    try:
        return [[int(core) for core in part.split(",")] for part in text.split(":")]
    except ValueError:
        raise ValueError(
            f"cpu_affinity: {_options.shown(text)} is not a list of cores such as 0,1:2,3"
        ) from None


def _named(text: str, cores: Sequence[int]) -> list[list[int]]:
    sets = _read(text)
    missing = {core for one in sets for core in one} - set(cores)
    if missing:
        raise ValueError(f"this process may not use cores {sorted(missing)}, only {list(cores)}")
    return sets


def to_text(sets: Sequence[Sequence[int]]) -> str:
    """Returns the cores of all workers in one line."""
    return ":".join(",".join(map(str, one)) for one in sets)


def bind(slot: int, places: Sequence[int]) -> None:
    """Binds this process, the worker of ``slot``, to its cores if the node's agent binds workers.

    :param places: the index of each slot in the node's list of core sets; empty if slots and indexes are equal.
    """
    # The variable is removed, so that programs that the worker starts do not inherit it.
    text = os.environ.pop(VARIABLE, None)
    if text is None:
        return
    global _sets, _slot
    of_places = [{int(core) for core in one.split(",")} for one in text.split(":")]
    _sets = [of_places[place % len(of_places)] for place in places] or of_places
    _slot = slot
    widen((), 1)


def widen(slots: Sequence[int], places: int) -> None:
    """Binds this process to the cores of ``slots``, or to its own cores if ``slots`` is empty. Does nothing if unbound.

    :param places: the number of CPU slots of the task; with several CPU slots and no ``slots``, the task gets the cores
        of all workers.
    """
    if not _sets:
        return
    if not slots:
        slots = range(len(_sets)) if places > 1 else (_slot,)
    os.sched_setaffinity(0, set().union(*(_sets[slot % len(_sets)] for slot in slots)))
