"""How many objects the collector of garbage has to look through, and what it costs, as the program runs.

Source of the idea: "Towards Fine-grained Parallelism in Parallel and Distributed Python Libraries", section 5.3.2,
which counts the objects that Parsl's kernel makes, and runs it without the collector.

No thread of its own: objects are counted when the collector has just run, and so seldom that counting stays below a
fiftieth of the time.
"""

from __future__ import annotations

import gc
import os
import sys
from time import monotonic, perf_counter
from typing import Any, Literal

#: Of the time between two counts, what a count may take.
_SHARE = 0.02
#: Counts that are kept; then every other is dropped, and they become half as frequent.
_COUNTS_MAX = 4_096


class Garbage:
    """Watches the collector of this process."""

    def __init__(self) -> None:
        self._begun = self._begun_at = 0.0
        self._collecting_since = 0.0
        self._next_count = 0.0
        self._gap_min = 0.02
        self.counts: list[tuple[float, int, int]] = []
        #: Of each generation: collections, seconds, objects that were garbage.
        self.generations = [[0, 0.0, 0] for _ in gc.get_stats()]

    def start(self) -> None:
        """From now on; not in processes that are forked."""
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
        """Counts all objects that the collector tracks, and all blocks that Python has from its allocator."""
        begun = perf_counter()
        tracked = len(gc.get_objects())
        self.counts.append((begun - self._begun, tracked, sys.getallocatedblocks()))
        ended = perf_counter()
        self._next_count = ended + max(self._gap_min, (ended - begun) / _SHARE)
        if len(self.counts) > _COUNTS_MAX:
            del self.counts[1::2]
            self._gap_min *= 2

    def found(self) -> dict[str, Any]:
        """All of it, for JSON; seconds."""
        self.count()
        return {
            # By the clock that the profiler has too.
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
