"""Failures that the task did not cause: its worker or its node was lost."""

from __future__ import annotations

from gristmill._errors import GristmillError
from gristmill._errors import WorkerLostError as WorkerLost

__all__ = ["ManagerLost", "WorkerLost", "is_loss"]

#: Parsl's own errors, by name: their modules need not be loaded.
_FOREIGN = {
    ("parsl.executors.high_throughput.errors", "WorkerLost"),
    ("parsl.executors.high_throughput.errors", "ManagerLost"),
}


class ManagerLost(GristmillError):
    """The loss of all workers of a node. Only Parsl's own executors raise it."""

    code = "manager_lost"


def is_loss(error: BaseException) -> bool:
    """Returns whether the task lost its worker, and may well succeed elsewhere."""
    kind = type(error)
    return issubclass(type(error), WorkerLost) or (kind.__module__, kind.__name__) in _FOREIGN
