"""Failures that are not the task's: its worker or the node under it was lost."""

from __future__ import annotations

from gristmill._errors import GristmillError, WorkerLost

__all__ = ["ManagerLost", "WorkerLost", "is_loss"]

#: Parsl's own, by name: they need not be loaded to be told from others.
_FOREIGN = {
    ("parsl.executors.high_throughput.errors", "WorkerLost"),
    ("parsl.executors.high_throughput.errors", "ManagerLost"),
}


class ManagerLost(GristmillError):
    """All workers of a node were lost; raised by Parsl's own executors only."""


def is_loss(error: BaseException) -> bool:
    """Whether the task may well succeed elsewhere."""
    kind = type(error)
    return isinstance(error, WorkerLost) or (kind.__module__, kind.__name__) in _FOREIGN
