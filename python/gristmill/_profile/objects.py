"""Counts of the objects that the garbage collector must examine, and its cost, during a run.

Source of the idea: "Towards Fine-grained Parallelism in Parallel and Distributed Python Libraries", section 5.3.2,
which counts the objects that Parsl's kernel makes, and runs it without the collector.

There is no thread: objects are counted after a collection, and so seldom that counting takes less than a fiftieth of
the time.
"""

from __future__ import annotations

import gc
import os
import sys
from time import monotonic, perf_counter
from typing import Any, Literal

#: The largest share of the time between two counts that a count may take.
_SHARE = 0.02
#: The limit of kept counts. When it is exceeded, every other count is dropped and the interval doubles.
_COUNTS_MAX = 4_096


class Garbage:
    """An observer of this process's garbage collector."""

    def __init__(self) -> None:
        self._begun = self._begun_at = 0.0
        self._collecting_since = 0.0
        self._next_count = 0.0
        self._gap_min = 0.02
        self.counts: list[tuple[float, int, int]] = []
        #: For each generation: the number of collections, their seconds, and the objects that were garbage.
        self.generations = [[0, 0.0, 0] for _ in gc.get_stats()]

    def start(self) -> None:
        """Starts observing, in this process only and not in forked children."""
        self._begun, self._begun_at = perf_counter(), monotonic()
        self.count()
        gc.callbacks.append(self._note)
        os.register_at_fork(after_in_child=self._stop)

    def _stop(self) -> None:
        if self._note in gc.callbacks:
            gc.callbacks.remove(self._note)

    def _note(self, phase: Literal["start", "stop"], info: dict[str, int]) -> None:
        now = perf_counter()
        if phase == "start":
            self._collecting_since = now
            return
        of = self.generations[info["generation"]]
        of[0] += 1
        of[1] += now - self._collecting_since
        of[2] += info["collected"]
        if now >= self._next_count:
            self.count()

    def count(self) -> None:
        """Counts all objects that the collector tracks, and all blocks that Python's allocator has given out."""
        begun = perf_counter()
        tracked = len(gc.get_objects())
        self.counts.append((begun - self._begun, tracked, sys.getallocatedblocks()))
        ended = perf_counter()
        self._next_count = ended + max(self._gap_min, (ended - begun) / _SHARE)
        if len(self.counts) > _COUNTS_MAX:
            del self.counts[1::2]
            self._gap_min *= 2

    def found(self) -> dict[str, Any]:
        """Returns all results, for JSON; times in seconds."""
        self.count()
        return {
            # On the monotonic clock, which the profiler uses too.
            "begun": self._begun_at,
            "seconds": perf_counter() - self._begun,
            "enabled": gc.isenabled(),
            "thresholds": gc.get_threshold(),
            "counts": self.counts,
            "generations": [
                {"collections": one[0], "seconds": one[1], "collected": one[2]}
                for one in self.generations
            ],
        }
