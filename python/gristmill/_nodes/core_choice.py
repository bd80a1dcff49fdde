"""Which cores an agent uses on a node where nobody says whose they are: agents leave them to each other."""

from __future__ import annotations

import socket

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence


def choose(cores: Sequence[int], count: int) -> list[int]:
    """``count`` of these cores, those first that no other agent has taken; they are this process's until it ends."""
    taken: list[int] = []
    for core in cores:
        if len(taken) == count:
            break
        if _take(core):
            taken.append(core)
    # Where too few are left some are shared.
    others = [core for core in cores if core not in taken]
    return sorted(taken + others[: count - len(taken)])


def _take(core: int) -> bool:
    """Whether it could be taken: by a name that one process of the machine can have at a time."""
    name = socket.socket(socket.AF_UNIX)
    try:
        # Nobody listens there: a name in the abstract namespace of Linux, and nothing else.
        name.bind(f"\0gristmill-core-{core}")
    except OSError:
        name.close()
        return False
    # Open until this process ends, whatever ends it: then the name is free again.
    name.detach()
    return True
