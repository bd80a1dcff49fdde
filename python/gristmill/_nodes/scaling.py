"""Rules for the number of blocks. They are pure state machines: the caller passes the time."""

from __future__ import annotations

import collections
import dataclasses
import math

#: The names of strategies, as in Parsl's configurations.
STRATEGIES = ("none", "simple", "htex_auto_scale")


@dataclasses.dataclass(frozen=True)
class Limits:
    """The limits of the number of blocks, and their size."""

    init_blocks: int
    min_blocks: int
    max_blocks: int
    #: Workers for each task that could run: 1 asks for as many as possible, 0 for as few.
    parallelism: float
    #: The number of workers of a block, assumed until nodes of a block have connected.
    workers_per_block: float


class Strategy:
    """A rule for how many blocks to add or to remove.

    :param kind: ``none``: only the initial blocks; ``simple``: as many blocks as the runnable tasks ask for, and as few
        as allowed after a time without tasks; ``htex_auto_scale``: also removes blocks that are idle while others work.
    :param max_idletime_s: how long blocks without tasks are kept, seconds.
    """

    def __init__(self, kind: str | None, limits: Limits, max_idletime_s: float) -> None:
        kind = kind or "none"
        if kind not in STRATEGIES:
            raise ValueError(f"the strategy {kind!r} is none of {', '.join(STRATEGIES)}")
        self._kind = kind
        self._limits = limits
        self.max_idletime_s = max_idletime_s
        self._is_first = True
        self._idle_since: float | None = None

    def decide(self, tasks: int, blocks: int, now: float, workers: float | None = None) -> int:
        """Returns the number of blocks to add to the running and pending ones; below 0: to remove.

        :param tasks: the number of tasks that could run.
        :param workers: workers of a block if known. The caller must find out which blocks are idle.
        """
        limits = self._limits
        if self._is_first:
            self._is_first = False
            if blocks < limits.init_blocks:
                return limits.init_blocks - blocks
        if self._kind == "none":
            return 0
        if tasks == 0:
            return self._rest(blocks, now)
        self._idle_since = None
        wanted = math.ceil(tasks * limits.parallelism / (workers or limits.workers_per_block))
        wanted = min(max(wanted, 1, limits.min_blocks), limits.max_blocks)
        is_saving = self._kind == "htex_auto_scale"
        return wanted - blocks if is_saving else max(0, wanted - blocks)

    def _rest(self, blocks: int, now: float) -> int:
        least = self._limits.min_blocks
        if blocks <= least:
            self._idle_since = None
            return least - blocks
        if self._idle_since is None:
            self._idle_since = now
        return least - blocks if now - self._idle_since > self.max_idletime_s else 0


class Rate:
    """A limit of ``count`` events within any interval of ``interval_s`` seconds."""

    def __init__(self, count: int, interval_s: float) -> None:
        if count < 1 or interval_s < 0:
            raise ValueError("a rate must be at least one in an interval")
        self._times: collections.deque[float] = collections.deque(maxlen=count)
        self._interval_s = interval_s

    def wait_s(self, now: float) -> float:
        """Returns the seconds until the next event is allowed."""
        if len(self._times) < (self._times.maxlen or 1):
            return 0.0
        return max(0.0, self._times[0] + self._interval_s - now)

    def note(self, now: float) -> None:
        """Counts one event."""
        self._times.append(now)
