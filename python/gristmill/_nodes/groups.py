"""Groups of nodes that are near to each other, so that large arguments are sent to each group once."""

from __future__ import annotations

from collections.abc import Callable

from gristmill import _options

#: The name of one group for all nodes, or a function from a node's host name to its group; ``None``: no group.
Group = str | Callable[[str], str | None] | None


def check_group(group: Group) -> None:
    """Checks the type of a group. Raises ``TypeError``."""
    if group is not None and not isinstance(group, str) and not callable(group):
        raise TypeError(f"group must be a name or a function, not {_options.shown(group)}")


def group_of(group: Group, host: str) -> str | None:
    """Returns the group of a host. Raises ``ValueError`` if it is not a name on one line."""
    name = group(host) if callable(group) else group
    if name is not None and (not isinstance(name, str) or "\n" in name):
        raise ValueError(
            f"the group of {host} must be a name on one line, not {_options.shown(name)}"
        )
    return name or None


def same_group(group: Group) -> str | None:
    """Returns the group of nodes whose names are unknown before they join. Raises ``TypeError`` for a function."""
    check_group(group)
    if callable(group):
        raise TypeError(
            "group must be a name for this placement, because its hosts are unknown before it starts"
        )
    return group_of(group, "all nodes")
