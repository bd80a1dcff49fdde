"""Inference at each level: the time of all calls, by the length of a call and by the number of workers."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from itertools import pairwise
from time import perf_counter

from gristmill_bench.apps import resnet
from gristmill_bench.figures.contexts.inference import OfInference, inferred
from gristmill_bench.figures.contexts.levels import LEVELS, opened
from gristmill_bench.figures.data import Data
from gristmill_bench.figures.figure import Relation
from gristmill_bench.figures.relations import at_least, every
from gristmill_bench.figures.session import Case, Sample

#: Inferences of a call in the first sweep; workers, with one call each.
_PER_CALL, _WORKERS = (16, 80, 320), 2
#: Workers in the second sweep; number of calls; inferences of each call.
_POOLS, _POOL_CALLS, _POOL_INFERENCES = (1, 2, 4), 4, 16


def saved(data: Data, places: Sequence[int]) -> list[float]:
    """Returns the share of the time at L2 that L3 saves, at each place."""
    return [1 - data.at("L3", place) / data.at("L2", place) for place in places]


def shrinks(data: Data) -> tuple[bool, str]:
    """Returns whether that share shrinks from place to place."""
    shares = saved(data, _PER_CALL)
    text = ", ".join(f"{share:.0%}" for share in shares)
    return all(one > other for one, other in pairwise(shares)), text


def gain(data: Data, series: str) -> float:
    """Returns the share of the time of one worker that two workers save."""
    first, second = _POOLS[:2]
    return 1 - data.at(series, second) / data.at(series, first)


def needs_less(data: Data) -> tuple[bool, str]:
    """Returns whether one worker at L3 is faster than any number of workers at the other levels."""
    others = min(data.at(name, workers) for name in ("L1", "L2") for workers in _POOLS)
    ratio = others / data.at("L3", _POOLS[0])
    return ratio > 1, f"{ratio:.3g}x"


class PerCall(OfInference):
    """One call on each of two workers, with more and more inferences: the time from the submissions to the last result,
    after a level has done its one-time work. The paper has 10,000 calls of 16, 160 and 1,600 inferences on 100 workers.
    Here the longest calls have 320, and pictures are small: 16 inferences take a tenth of a second, and a setup with
    its interpreter a few tenths.
    """

    key = "contexts-8"
    source = "Function contexts, figure 8"
    title = "Time of calls of more and more inferences, by level of reuse"
    across = "inferences of a call"
    upward = "seconds"
    relations = (
        Relation(
            "with 16 inferences L3 saves most of the time of L1 and of L2",
            every(*(at_least(name, 2, "L3", _PER_CALL[:1]) for name in ("L1", "L2"))),
        ),
        Relation(
            "the longer the calls, the smaller the share that L3 saves",
            lambda data: shrinks(data),
        ),
        Relation("L2 is at least as fast as L1", at_least("L1", 1, "L2", _PER_CALL)),
    )

    def cases(self, path: str) -> Iterator[Case]:
        """Yields a case for each level, which runs all lengths one after the other."""
        for name in LEVELS:
            yield Case(name, "all lengths", partial(self._lengths, name, path))

    @staticmethod
    def _lengths(name: str, path: str) -> Iterator[Sample]:
        with opened(name, resnet.opened, path, workers=_WORKERS) as level:
            inferred(level, _WORKERS, 1, _WORKERS)
            for inferences in _PER_CALL:
                start = perf_counter()
                inferred(level, _WORKERS, inferences, _WORKERS)
                yield Sample(name, inferences, perf_counter() - start)


class Pools(OfInference):
    """Four calls of 16 inferences on one, two and four workers of a machine with two cores, from the start of the
    executor to the last result. The paper has 10,000 calls on 50 to 150 workers of 32 cores each, where L3 waits for
    the one program that sends calls; below 50 workers it gains from more workers there too. Here most of the time at L3
    is that of its one setup, which a second worker does not shorten.
    """

    key = "contexts-9"
    source = "Function contexts, figure 9"
    title = "Time of all calls by workers, by level of reuse"
    across = "workers"
    upward = "seconds"
    relations = (
        Relation(
            "L1 and L2 gain from more workers",
            lambda data: _gains(data, "L1", "L2"),
        ),
        Relation(
            "L3 gains little from more workers: less than a quarter",
            lambda data: _gains_little(data),
        ),
        Relation(
            "L3 on the fewest workers is faster than L1 and L2 on the most",
            lambda data: needs_less(data),
        ),
    )

    def cases(self, path: str) -> Iterator[Case]:
        """Yields a case for each level on each number of workers."""
        for workers in _POOLS:
            for name in LEVELS:
                yield Case(name, workers, partial(self._total, name, path, workers))

    @staticmethod
    def _total(name: str, path: str, workers: int) -> list[Sample]:
        """Measures the time from before the executor is made until all results have arrived."""
        start = perf_counter()
        with opened(name, resnet.opened, path, workers=workers) as level:
            inferred(level, _POOL_CALLS, _POOL_INFERENCES, workers)
            return [Sample(name, workers, perf_counter() - start)]


def _gains(data: Data, *names: str) -> tuple[bool, str]:
    gains = {name: gain(data, name) for name in names}
    text = ", ".join(f"{one:.0%} at {name}" for name, one in gains.items())
    return min(gains.values()) > 0, f"two workers save {text}"


def _gains_little(data: Data) -> tuple[bool, str]:
    share = gain(data, "L3")
    return share < 0.25, f"two workers save {share:.0%}"
