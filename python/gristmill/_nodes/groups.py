"""Groups: which nodes are near to each other, so that large arguments reach each group once."""

from __future__ import annotations

from collections.abc import Callable

#: The name of one group for all nodes, or what gives it by a node's host name; ``None``: a node is in no group.
Group = str | Callable[[str], str | None] | None


def group_of(group: Group, host: str) -> str | None:
    """The group of a host. Raises ``ValueError`` for what is no name."""
    name = group(host) if callable(group) else group
    if name is not None and (not isinstance(name, str) or "\n" in name):
        raise ValueError(f"the group of {host} must be a name on one line, not {name!r}")
    return name or None


def same_group(group: Group) -> str | None:
    """The group of nodes whose names are not known before they join. Raises ``TypeError`` for a function."""
    if callable(group):
        raise TypeError("group must be a name here: which hosts there will be is not known before")
    return group_of(group, "all nodes")
