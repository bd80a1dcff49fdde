"""Settings for the distribution of large arguments to nodes, validated when they are made."""

from __future__ import annotations

import dataclasses

from gristmill import _options

TOPOLOGIES = ("client", "peers", "groups")


@dataclasses.dataclass(frozen=True, kw_only=True)
class Blobs:
    """Settings for the distribution of arguments of a megabyte or more to nodes, and limits of what nodes keep.

    Each argument is sent to a node once, however many tasks need it. By default nodes pass it on to each other. Raises
    ``ValueError`` for values out of range.
    """

    #: The number of nodes that get the same argument from one source at the same time.
    fanout: int = 2
    #: The possible sources: ``"client"``, only this program; ``"peers"``, nodes as well; ``"groups"``, nodes of a group
    #: send to each other, and one node of the group at a time gets an argument from outside (``group=`` of
    #: ``on.Network``, ``gristmill node --group``).
    topology: str = "peers"
    #: The limit of arguments and results in a node's memory, bytes; by default an eighth of its memory. Above it, those
    #: that no task on the node needs are removed.
    memory: int | None = None
    #: The limit of what a node keeps of these on disk, in an unnamed file in ``TMPDIR``, bytes; by default ``memory``.
    disk: int | None = None

    def __post_init__(self) -> None:
        set_field = object.__setattr__  # the fields are frozen for users
        set_field(self, "fanout", _options.count("fanout", self.fanout, 1, _options.SHORT_MAX))
        _options.one_of("topology", self.topology, TOPOLOGIES)
        for name in ("memory", "disk"):
            limit = getattr(self, name)
            set_field(self, name, _options.optional_count(name, limit, 0))
