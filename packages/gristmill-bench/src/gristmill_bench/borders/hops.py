"""Hops: the parts of a task's way between two borders, and the time that each takes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import IntEnum
from statistics import fmean, median
from typing import Any, NamedTuple, Protocol

from gristmill.instruments import COMPONENTS
from gristmill_bench.errors import BenchError
from gristmill_bench.interfaces import Backend


class Border(IntEnum):
    """Borders that a task of Parsl's kernel crosses over HTEX, in order."""

    SUBMITTED = 0
    HANDED = 1
    BEGUN = 2
    LAUNCHED = 3
    SENT = 4
    RECEIVED = 5
    QUEUED = 6
    TAKEN = 7
    FORWARDED = 8
    ARRIVED = 9
    PUT = 10
    STARTED = 11
    ENDED = 12
    COLLECTED = 13
    RETURNED = 14
    DELIVERED = 15
    DONE = 16


class PoolBorder(IntEnum):
    """Borders that a task of a pool crosses, in order."""

    SUBMITTED = 0
    QUEUED = 1
    STARTED = 2
    ENDED = 3
    COLLECTED = 4
    DONE = 5


#: Hop in which tasks wait for the one thread in which Parsl's kernel launches them.
LAUNCHING = "queue to the launching thread"
#: Names of the hops before each border but the first. A hop with a colon is within a component; one without is on the
#: way to another component or thread.
OF_HTEX = (
    "kernel: takes",
    LAUNCHING,
    "kernel: launches",
    "executor: packs, sends",
    "socket to the interchange",
    "interchange: reads",
    "interchange: queue",
    "interchange: sends",
    "socket to the manager",
    "manager: reads",
    "queue to a worker",
    "worker: function",
    "queue back to the manager",
    "manager to interchange",
    "interchange to executor",
    "kernel: completes",
)
#: Names of the hops of a pool of ``concurrent.futures``, or loky's.
OF_POOLS = (
    "client: waits for a worker",
    "queue to a worker",
    "worker: function",
    "queue back to the client",
    "client: completes",
)


class Hop(NamedTuple):
    """The time that tasks spent between two borders, in microseconds."""

    name: str
    median_us: float
    mean_us: float
    tasks: int


class TimedBackend(Backend, Protocol):
    """A backend that records when its tasks cross borders."""

    def begin(self) -> None:
        """Forgets all earlier tasks."""

    def hops(self) -> list[Hop]:
        """Returns the hops of later tasks that have ended. Raises ``BenchError`` if there are none."""


def of_borders(tasks: Sequence[Mapping[int, int]], names: Sequence[str]) -> list[Hop]:
    """Returns the hops of tasks that have crossed all borders, from times by border number; ignores other tasks."""
    whole = [one for one in tasks if len(one) == len(names) + 1]
    return [_hop(name, [one[at + 1] - one[at] for one in whole]) for at, name in enumerate(names)]


def of_timings(timings: Sequence[Mapping[str, Any]]) -> list[Hop]:
    """Returns the hops of Gristmill's tasks, from their timings."""
    return [
        _hop(name, [one[end] - one[start] for one in timings]) for start, end, name in COMPONENTS
    ]


def _hop(name: str, times_ns: Sequence[int]) -> Hop:
    if not times_ns:
        raise BenchError(
            "run.timings: no task has crossed all borders, so that there is nothing to measure"
        )
    return Hop(name, median(times_ns) / 1e3, fmean(times_ns) / 1e3, len(times_ns))
