"""How large arguments come to nodes: settings, checked where they are made."""

from __future__ import annotations

import dataclasses

TOPOLOGIES = ("client", "peers", "groups")


@dataclasses.dataclass(frozen=True, kw_only=True)
class Blobs:
    """How arguments of a megabyte or more come to nodes, and how much of them nodes keep.

    Each goes to a node once, however many tasks need it, and nodes give it on to each other. Raises ``ValueError`` for
    what cannot be meant.
    """

    #: How many nodes get the same argument from one giver at the same time.
    fanout: int = 2
    #: Who gives: ``"client"``, only this program; ``"peers"``, nodes as well; ``"groups"``, nodes of a group give to
    #: each other, and one node of it at a time gets an argument from elsewhere (``group=`` of placements,
    #: ``gristmill node --group``).
    topology: str = "peers"
    #: Bytes in a node's memory above which arguments that no task needs leave it; an eighth of its memory if not given.
    memory: int | None = None
    #: Bytes of these that a node keeps on its disk, in a nameless file in ``TMPDIR``; as much as ``memory`` if not
    #: given.
    disk: int | None = None

    def __post_init__(self) -> None:
        if self.fanout < 1:
            raise ValueError(f"fanout must be at least 1, not {self.fanout}")
        if self.topology not in TOPOLOGIES:
            names = ", ".join(f'"{name}"' for name in TOPOLOGIES)
            raise ValueError(f"topology must be one of {names}, not {self.topology!r}")
        for name in ("memory", "disk"):
            limit = getattr(self, name)
            if limit is not None and limit < 0:
                raise ValueError(f"{name} must not be negative, and is {limit}")
