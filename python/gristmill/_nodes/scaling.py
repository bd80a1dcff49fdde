"""How many blocks there should be. Pure state machines: whoever asks says what the time is."""

from __future__ import annotations

import collections
import dataclasses
import math

#: Names of strategies, as in a configuration of Parsl.
STRATEGIES = ("none", "simple", "htex_auto_scale")


@dataclasses.dataclass(frozen=True)
class Limits:
    """How many blocks there may be, and how large they are."""

    init_blocks: int
    min_blocks: int
    max_blocks: int
    #: Workers of a block, for each task that could run: 1 is as many as possible, 0 as few.
    parallelism: float
    #: A guess, for as long as no block is there.
    workers_per_block: float


class Strategy:
    """Says how many blocks to add or to take away.

    :param kind: ``none``: the blocks of the beginning and no others; ``simple``: as many as the tasks that could run
        ask for, and as few as allowed when there was none for a while; ``htex_auto_scale``: those that are idle while
        others work are not kept either.
    :param max_idletime_s: how long blocks are kept for nothing.
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
        """How many blocks to add to those that there are or that are waited for; below 0: to take away.

        :param tasks: how many could run.
        :param workers: of a block, as far as that is known. Which blocks are idle is for the caller to know.
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
    """At most so many of something within any interval of so many seconds."""

    def __init__(self, count: int, interval_s: float) -> None:
        if count < 1 or interval_s < 0:
            raise ValueError("a rate is at least one in an interval")
        self._times: collections.deque[float] = collections.deque(maxlen=count)
        self._interval_s = interval_s

    def wait_s(self, now: float) -> float:
        """How long to wait until there may be another one."""
        if len(self._times) < (self._times.maxlen or 1):
            return 0.0
        return max(0.0, self._times[0] + self._interval_s - now)

    def note(self, now: float) -> None:
        """Counts one."""
        self._times.append(now)
