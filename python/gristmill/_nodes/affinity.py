"""Which cores the workers of a node are bound to."""

from __future__ import annotations

import glob
import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

#: The cores of this process, and those of all workers of its node, if it is bound.
_sets: tuple[set[int], set[int]] | None = None
#: The environment variable by which an agent tells its workers.
VARIABLE = "GRISTMILL_NODE_CORES"


def core_sets(policy: str, cores: Sequence[int], workers: int) -> list[list[int]] | None:
    """The cores of each worker; ``None``: they are not bound.

    :param policy: ``none``; ``numa``: each to a part of the machine whose memory is near, in turns; ``block``:
        neighbours together, the first worker on the first cores; ``block-reverse``: the first worker on the last ones;
        ``alternating``: dealt out one by one; ``list:0,1:2,3``: as it says, a worker between two colons.
    :param cores: those that there are.
    :param workers: how many share them.

    Raises ``ValueError`` for another policy, and for cores that there are not.
    """
    if policy == "none":
        return None
    if policy == "numa":
        parts = numa_parts(cores)
        return [parts[number % len(parts)] for number in range(workers)]
    if policy.startswith("list:"):
        return _named(policy.removeprefix("list:"), cores)
    share = max(1, len(cores) // workers)
    if policy == "alternating":
        return [
            list(cores[number::workers]) or [cores[number % len(cores)]]
            for number in range(workers)
        ]
    if policy not in ("block", "block-reverse"):
        known = "none, numa, block, block-reverse, alternating and list:..."
        raise ValueError(f"the affinity {policy!r} is none of {known}")
    blocks = [
        [cores[(number * share + place) % len(cores)] for place in range(share)]
        for number in range(workers)
    ]
    return blocks if policy == "block" else blocks[::-1]


def numa_parts(cores: Sequence[int], root: str = "/sys/devices/system/node") -> list[list[int]]:
    """The cores by what memory they are near to: a list for each part of the machine that has some of them."""
    parts = []
    for path in sorted(glob.glob(f"{root}/node[0-9]*/cpulist")):
        with open(path) as file:
            near = _ranges(file.read())
        parts.append([core for core in cores if core in near])
    return [part for part in parts if part] or [list(cores)]


def _ranges(text: str) -> set[int]:
    """The numbers of a list such as ``0-3,8``."""
    numbers: set[int] = set()
    for part in text.strip().split(","):
        first, _, last = part.partition("-")
        if first:
            numbers.update(range(int(first), int(last or first) + 1))
    return numbers


def _named(text: str, cores: Sequence[int]) -> list[list[int]]:
    try:
        sets = [[int(core) for core in part.split(",")] for part in text.split(":")]
    except ValueError:
        raise ValueError(f"{text!r} is no list of cores such as 0,1:2,3") from None
    missing = {core for one in sets for core in one} - set(cores)
    if missing:
        raise ValueError(
            f"there are no cores {sorted(missing)} here, of which there are {list(cores)}"
        )
    return sets


def to_text(sets: Sequence[Sequence[int]]) -> str:
    """The cores of all workers in one line."""
    return ":".join(",".join(map(str, one)) for one in sets)


def bind(slot: int) -> None:
    """Binds this process, the worker of that slot, to its cores, if the node's agent has said so."""
    # Programs that the worker starts are not meant.
    text = os.environ.pop(VARIABLE, None)
    if text is None:
        return
    global _sets
    sets = [{int(core) for core in one.split(",")} for one in text.split(":")]
    _sets = (sets[slot % len(sets)], set().union(*sets))
    widen(False)


def widen(is_wide: bool) -> None:
    """Binds this process, if it is bound at all, to the cores of all workers, or to its own."""
    if _sets is not None:
        os.sched_setaffinity(0, _sets[is_wide])
