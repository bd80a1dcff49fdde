"""Tasks a second of an engine, by how long tasks compute: one run measures all lengths.

The measurement is that of the thesis *Towards Fine-grained Parallelism in Parallel and Distributed Python Libraries*
(figures 2.10 and 2.11): the program submits independent tasks one by one and then waits for their results. The run
finds the number of tasks with which each measurement takes about as long as chosen.
"""

from __future__ import annotations

import time
from pathlib import Path
from typing import Annotated, NamedTuple

from pydantic import Field

from gristmill_bench.apps.base import App
from gristmill_bench.apps.stencil import mixed, point
from gristmill_bench.engine import Engine
from gristmill_bench.errors import WrongResult

#: Tasks of the first measurement.
_FEWEST = 50
#: Largest growth of the number of tasks between two measurements, because the time of a few tasks may be chance.
_GROWTH_MAX = 50.0


class Measured(NamedTuple):
    """Tasks that ran together."""

    busy_us: float
    results: list[int]
    #: Seconds from the first submission to the last result.
    seconds: float

    @property
    def rate(self) -> float:
        """Tasks a second."""
        return len(self.results) / self.seconds


class Granularity(App):
    """Rates of independent tasks, by how long they compute."""

    #: Microseconds that tasks compute; the run measures one length after the other.
    busy_us: Annotated[tuple[Annotated[float, Field(ge=0)], ...], Field(min_length=1)] = (
        0,
        1,
        10,
        1_000,
        10_000,
    )
    #: Seconds that each measurement should take.
    seconds: Annotated[float, Field(gt=0)] = 0.5

    def run(self, engine: Engine, folder: Path) -> list[Measured]:
        """Returns a measurement for each length."""
        return [self._measured(engine, busy_us) for busy_us in self.busy_us]

    def check(self, result: list[Measured]) -> str:
        """Checks that each task returned the expected number."""
        for one in result:
            expected = [mixed(number) for number in range(len(one.results))]
            if one.results != expected:
                raise WrongResult(f"tasks of {one.busy_us:g} us returned {one.results[:3]}...")
        return ", ".join(f"{one.rate:,.0f}/s of {one.busy_us:g} us" for one in result)

    def figures(self, result: list[Measured]) -> dict[str, float]:
        """Returns the rate for each length."""
        return {rate_name(one.busy_us): one.rate for one in result}

    def _measured(self, engine: Engine, busy_us: float) -> Measured:
        """Repeats a measurement with more tasks until it takes at least half of ``seconds``; returns the last one."""
        count = _FEWEST
        while True:
            begun = time.perf_counter()
            results = list(engine.map(point, range(count), [busy_us] * count))
            one = Measured(busy_us, results, time.perf_counter() - begun)
            if one.seconds >= self.seconds / 2:
                return one
            growth = min(_GROWTH_MAX, max(2.0, self.seconds / one.seconds))
            count = round(count * growth)


def rate_name(busy_us: float) -> str:
    """Returns the name of a length's rate among the figures of a run."""
    return f"rate_of_{busy_us:g}us_hz"
