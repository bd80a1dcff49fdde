"""Which cores the workers of a node are bound to."""

from __future__ import annotations

import functools
import glob
import operator
import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

#: Where Linux says which cores are near to which memory.
FOLDER = "/sys/devices/system/node"
#: The environment variable by which an agent tells its workers.
VARIABLE = "GRISTMILL_NODE_CORES"
_POLICIES = ("none", "numa", "block", "block-reverse", "alternating")
#: What begins a policy that names cores.
_LIST = "list:"
#: Domains that are told apart.
_DOMAINS_MAX = 64

#: The cores of each slot's worker, if workers are bound, and the slot of this one.
_sets: list[set[int]] = []
_slot = 0


def core_sets(policy: str, cores: Sequence[int], workers: int) -> list[list[int]] | None:
    """The cores of each worker; ``None``: they are not bound.

    :param policy: ``none``; ``numa``: each to the cores that are near to one memory, where these have room for its
        share, else to those of as few memories as can be; ``block``: neighbours together, the first worker on the first
        cores; ``block-reverse``: the first worker on the last ones; ``alternating``: dealt out one by one;
        ``list:0,1:2,3``: as it says, a worker between two colons.
    :param cores: those that there are.
    :param workers: how many share them.

    Raises ``ValueError`` for another policy, and for cores that there are not.
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
    """The policy, if it is one. Raises ``ValueError``."""
    if policy.startswith(_LIST):
        _read(policy.removeprefix(_LIST))
    elif policy not in _POLICIES:
        raise ValueError(
            f"the affinity {policy!r} is none of {', '.join(_POLICIES)} and {_LIST}..."
        )
    return policy


def chooses(policy: str) -> bool:
    """Whether it binds workers to cores that it does not name."""
    return policy != "none" and not policy.startswith(_LIST)


def numa_parts(cores: Sequence[int]) -> list[list[int]]:
    """The cores by what memory they are near to: a list for each domain of the machine that has some of them."""
    parts = []
    for path in sorted(glob.glob(f"{FOLDER}/node[0-9]*/cpulist"), key=_number):
        with open(path) as file:
            near = _ranges(file.read())
        parts.append([core for core in cores if core in near])
    return [part for part in parts if part] or [list(cores)]


def _number(path: str) -> int:
    return int(os.path.basename(os.path.dirname(path)).removeprefix("node"))


def _near(parts: Sequence[Sequence[int]], workers: int) -> list[list[int]]:
    """The domains of each worker: the one with the most room for its share of the cores, else as few as can be."""
    share = max(1, sum(map(len, parts)) // workers)
    room = [0] * len(parts)
    sets = []
    for _ in range(workers):
        if sum(room) < share:  # every core is somebody's: another round
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


def domains(sets: Sequence[Sequence[int]], workers: int) -> list[int]:
    """Which domains of the machine each worker's cores are in, a bit each."""
    parts = numa_parts(sorted({core for one in sets for core in one}))
    of_core = {
        core: 1 << (number % _DOMAINS_MAX) for number, part in enumerate(parts) for core in part
    }
    bits = [functools.reduce(operator.or_, (of_core.get(core, 0) for core in one)) for one in sets]
    return [bits[number % len(bits)] for number in range(workers)]


def _ranges(text: str) -> set[int]:
    """The numbers of a list such as ``0-3,8``."""
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
        raise ValueError(f"{text!r} is no list of cores such as 0,1:2,3") from None


def _named(text: str, cores: Sequence[int]) -> list[list[int]]:
    sets = _read(text)
    missing = {core for one in sets for core in one} - set(cores)
    if missing:
        raise ValueError(
            f"there are no cores {sorted(missing)} here, of which there are {list(cores)}"
        )
    return sets


def to_text(sets: Sequence[Sequence[int]]) -> str:
    """The cores of all workers in one line."""
    return ":".join(",".join(map(str, one)) for one in sets)


def bind(slot: int, places: Sequence[int]) -> None:
    """Binds this process, the worker of that slot, to its cores, if the node's agent has said so.

    :param places: of the node, one for each slot; empty: they are the slots.
    """
    # Programs that the worker starts are not meant.
    text = os.environ.pop(VARIABLE, None)
    if text is None:
        return
    global _sets, _slot
    of_places = [{int(core) for core in one.split(",")} for one in text.split(":")]
    _sets = [of_places[place % len(of_places)] for place in places] or of_places
    _slot = slot
    widen((), 1)


def widen(slots: Sequence[int], places: int) -> None:
    """Binds this process, if it is bound at all, to the cores of these slots; of its own without any.

    :param places: how many it has; of more than are named the cores are those of all.
    """
    if not _sets:
        return
    if not slots:
        slots = range(len(_sets)) if places > 1 else (_slot,)
    os.sched_setaffinity(0, set().union(*(_sets[slot % len(_sets)] for slot in slots)))
