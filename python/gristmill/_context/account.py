"""What a context cost, and was good for: the numbers of figures 10 and 11 of the paper."""

from __future__ import annotations

from typing import NamedTuple


class ContextEquipment(NamedTuple):
    """What each worker of a context has, for as long as it is one."""

    #: Workers' places that it fills.
    cores: int
    #: GPUs, or a share of one.
    gpus: float
    #: Bytes of memory.
    memory: int


class ContextReport(NamedTuple):
    """What a context cost in one executor, and was good for."""

    #: What it is called.
    name: str
    #: Workers that have it, or are to.
    workers: int
    #: Workers that came up with it.
    deployments: int
    #: Calls that ran there.
    calls: int
    #: Tasks that those workers have before them, and tasks that wait for one of them.
    running: int
    waiting: int
    #: How often it was set up, and how long that took together: workers that are forked from one process share a setup.
    setups: int
    setup_seconds: float
    #: How long the calls took together.
    call_seconds: float
    #: Bytes of memory that the last setup left its process with.
    memory: int
    #: Bytes that are brought to each node for it: images of its environment, its files, large arguments of its setup.
    disk: int
    #: What each of its workers has, whatever it does.
    holds: ContextEquipment
    #: Why no worker can have it.
    failure: str | None

    @property
    def share_value(self) -> float:
        """Calls for each deployment (the measure of figure 11 of the paper)."""
        return self.calls / max(self.deployments, 1)
