"""The choice of an agent's cores on a node without reservations of particular cores: agents avoid each other's."""

from __future__ import annotations

import socket

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence


def choose(cores: Sequence[int], count: int) -> list[int]:
    """Returns ``count`` of these cores, preferably unreserved ones, and reserves them until this process ends."""
    taken: list[int] = []
    for core in cores:
        if len(taken) == count:
            break
        if _take(core):
            taken.append(core)
    # If too few cores are free, agents share some.
    others = [core for core in cores if core not in taken]
    return sorted(taken + others[: count - len(taken)])


def _take(core: int) -> bool:
    """Tries to reserve a core by binding its name, which one process at a time can do. Returns whether it succeeded."""
    name = socket.socket(socket.AF_UNIX)
    try:
        # The name is in Linux's abstract namespace. The socket does not listen.
        name.bind(f"\0gristmill-core-{core}")
    except OSError:
        name.close()
        return False
    # The descriptor stays open until this process ends in any way; the kernel then frees the name.
    name.detach()
    return True
