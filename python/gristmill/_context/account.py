"""Costs and benefits of a context: the numbers of figures 10 and 11 of the paper."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from gristmill._context.terms import ContextResources


class ContextReport(NamedTuple):
    """Costs and benefits of a context in one executor."""

    #: Name of the context.
    name: str
    #: Number of workers that have the context or are starting with it.
    workers: int
    #: Number of workers that have started with the context.
    deployments: int
    #: Number of calls that ran in these workers.
    calls: int
    #: Number of tasks that are assigned to these workers.
    running: int
    #: Number of tasks that wait for one of these workers.
    waiting: int
    #: Number of setups. Workers that are forked from one process share one setup.
    setups: int
    #: Total duration of the setups.
    setup_seconds: float
    #: Total duration of the calls.
    call_seconds: float
    #: Memory of the process after the last setup, in bytes.
    memory: int
    #: Bytes that each node receives for the context: images of its environment, its files, large arguments of its
    #: setup.
    disk: int
    #: Resources that each worker of the context holds, even while it is idle.
    holds: ContextResources
    #: Reason why no worker can have the context; ``None`` if workers can.
    failure: str | None

    @property
    def share_value(self) -> float:
        """Number of calls per deployment."""
        return self.calls / max(self.deployments, 1)
