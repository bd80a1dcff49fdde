"""How many tasks a second an engine runs, by how long they compute: one run, all lengths.

The granularity of the thesis *Towards Fine-grained Parallelism in Parallel and Distributed Python Libraries* (figures
2.10 and 2.11): tasks that need nothing of each other are submitted one by one, then their results are awaited. How many
these are is found out: as many as take about as long as each measurement is to.
"""

from __future__ import annotations

import time
from pathlib import Path
from typing import Annotated, NamedTuple

from pydantic import Field

from gristmill.bench.apps.base import App
from gristmill.bench.apps.stencil import mixed, point
from gristmill.bench.engine import Engine
from gristmill.bench.errors import WrongResult

#: Tasks that a measurement begins with.
_FEWEST = 50
#: So many times as many at most, the next time: what the few took may be chance.
_GROWTH_MAX = 50.0


class Measured(NamedTuple):
    """Tasks that were run together."""

    busy_us: float
    results: list[int]
    #: From the first submission to the last result.
    seconds: float

    @property
    def rate(self) -> float:
        """Tasks a second."""
        return len(self.results) / self.seconds


class Granularity(App):
    """Rates of independent tasks, by how long they compute."""

    #: Microseconds that tasks compute, one length after the other.
    busy_us: Annotated[tuple[Annotated[float, Field(ge=0)], ...], Field(min_length=1)] = (
        0,
        1,
        10,
        1_000,
        10_000,
    )
    #: Seconds that each measurement is to take.
    seconds: Annotated[float, Field(gt=0)] = 0.5

    def run(self, engine: Engine, folder: Path) -> list[Measured]:
        """Gives a measurement for each length."""
        return [self._measured(engine, busy_us) for busy_us in self.busy_us]

    def check(self, result: list[Measured]) -> str:
        """Each task has returned what it has to."""
        for one in result:
            expected = [mixed(number) for number in range(len(one.results))]
            if one.results != expected:
                raise WrongResult(f"tasks of {one.busy_us:g} us returned {one.results[:3]}...")
        return ", ".join(f"{one.rate:,.0f}/s of {one.busy_us:g} us" for one in result)

    def figures(self, result: list[Measured]) -> dict[str, float]:
        """The rate for each length."""
        return {rate_name(one.busy_us): one.rate for one in result}

    def _measured(self, engine: Engine, busy_us: float) -> Measured:
        """A measurement that is long enough, sized by those before."""
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
    """What the rate of tasks of a length is called among the figures of a run."""
    return f"rate_of_{busy_us:g}us_hz"
