"""Hops: what tasks pass between two borders, and how long that takes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import IntEnum
from statistics import fmean, median
from typing import Any, NamedTuple, Protocol

from gristmill._profile.tags import COMPONENTS
from gristmill.bench.errors import BenchError
from gristmill.bench.interfaces import Backend


class Border(IntEnum):
    """What a task of Parsl's kernel crosses over HTEX, in order."""

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
    """What a task of a pool crosses, in order."""

    SUBMITTED = 0
    QUEUED = 1
    STARTED = 2
    ENDED = 3
    COLLECTED = 4
    DONE = 5


#: Where tasks wait for the one thread in which Parsl's kernel launches them.
LAUNCHING = "queue to the launching thread"
#: What lies before each border but the first. With a colon: within a component; without: on the way to another, or to
#: another thread.
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
#: The same of a pool of ``concurrent.futures``, or loky's.
OF_POOLS = (
    "client: waits for a place",
    "queue to a worker",
    "worker: function",
    "queue back to the client",
    "client: completes",
)


class Hop(NamedTuple):
    """The time that tasks spent between two borders, microseconds."""

    name: str
    median_us: float
    mean_us: float
    tasks: int


class TaggedBackend(Backend, Protocol):
    """A backend that knows when its tasks crossed borders."""

    def begin(self) -> None:
        """Forgets all tasks before."""

    def hops(self) -> list[Hop]:
        """Where the time of the others went that have ended; ``BenchError``: there are none."""


def of_borders(tasks: Sequence[Mapping[int, int]], names: Sequence[str]) -> list[Hop]:
    """Hops of tasks that have crossed all borders, by the number of the border; others do not count."""
    whole = [one for one in tasks if len(one) == len(names) + 1]
    return [_hop(name, [one[at + 1] - one[at] for one in whole]) for at, name in enumerate(names)]


def of_tags(tags: Sequence[Mapping[str, Any]]) -> list[Hop]:
    """Hops of our tasks, by their tags."""
    return [_hop(name, [one[end] - one[start] for one in tags]) for start, end, name in COMPONENTS]


def _hop(name: str, times_ns: Sequence[int]) -> Hop:
    if not times_ns:
        raise BenchError(
            "run.tags: no task has crossed all borders, so that there is nothing to measure"
        )
    return Hop(name, median(times_ns) / 1e3, fmean(times_ns) / 1e3, len(times_ns))
