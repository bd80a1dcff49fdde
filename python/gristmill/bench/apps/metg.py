"""METG(50 %): how short tasks may be before half of the workers' time is lost (Slaughter et al., SC 2020, section IV).

The *granularity* of a run is the time of its workers divided by its tasks; its *efficiency* is the share of that time
in which tasks compute. METG(50 %) is the granularity at which the efficiency falls through a half: the lower, the
shorter the tasks that an engine is good for.
"""

from __future__ import annotations

import time
from pathlib import Path
from typing import Annotated, NamedTuple

from pydantic import Field

from gristmill.bench.apps.base import App
from gristmill.bench.apps.stencil import Pattern, Stencil
from gristmill.bench.engine import Engine
from gristmill.bench.errors import WrongResult

#: The efficiency at which the granularity is looked for.
HALF = 0.5
#: Microseconds: the bounds of the search, beyond which an engine is for other things.
_SHORTEST_US, _LONGEST_US = 0.1, 1e6


class Point(NamedTuple):
    """One run: microseconds that each task computed, and the granularity; the efficiency is their ratio."""

    busy_us: float
    granularity_us: float

    @property
    def efficiency(self) -> float:
        """The share of the workers' time in which tasks computed."""
        return self.busy_us / self.granularity_us


class Metg(App):
    """The granularity at which half of the workers' time is lost, with a graph of Task Bench."""

    pattern: Pattern = "stencil"
    #: Tasks of a step; four for each worker if not given.
    width: Annotated[int, Field(ge=1)] | None = None
    #: Seconds that each run of the search is to take.
    seconds: Annotated[float, Field(gt=0)] = 0.2

    def run(self, engine: Engine, folder: Path) -> list[Point]:
        """Gives the curve: tasks are made twice as long until they are long enough, or half as long until they are not,
        and what is between the last two is halved.

        It begins with the shortest, of whose granularity they are next to nothing, and goes on with a quarter of that.
        """
        points = [self._point(engine, _SHORTEST_US)]
        if points[0].efficiency >= HALF:
            return points
        busy_us = max(2 * _SHORTEST_US, points[0].granularity_us / 4)
        points.append(self._point(engine, busy_us))
        was_long_enough = points[-1].efficiency >= HALF
        factor = 0.5 if was_long_enough else 2.0
        while (points[-1].efficiency >= HALF) == was_long_enough and self._is_within(busy_us):
            busy_us *= factor
            points.append(self._point(engine, busy_us))
        low, high = sorted((busy_us, busy_us / factor))
        for _ in range(4):
            middle = (low * high) ** 0.5
            points.append(self._point(engine, middle))
            low, high = (low, middle) if points[-1].efficiency >= HALF else (middle, high)
        return sorted(points)

    def check(self, result: list[Point]) -> str:
        """Tasks do not take longer than their workers had, and there is a crossing."""
        impossible = [one for one in result if not 0 < one.efficiency <= 1.02]
        if impossible:
            raise WrongResult(f"an efficiency of {impossible[0].efficiency:.3f}")
        return f"METG(50 %) = {self.figures(result)['metg_us']:.3g} us, with {self.pattern}"

    def figures(self, result: list[Point]) -> dict[str, float]:
        """The granularity at the crossing, between the two runs beside it on a logarithmic scale."""
        below = max((one for one in result if one.efficiency < HALF), default=None)
        if below is None:
            return {"metg_us": result[0].granularity_us}
        above = min((one for one in result if one > below), default=None)
        if above is None:
            raise WrongResult(f"tasks of {_LONGEST_US / 1e6:g} s lose more than half of the time")
        share = (HALF - below.efficiency) / (above.efficiency - below.efficiency)
        ratio = above.granularity_us / below.granularity_us
        return {"metg_us": below.granularity_us * ratio**share}

    @staticmethod
    def _is_within(busy_us: float) -> bool:
        return _SHORTEST_US < busy_us < _LONGEST_US

    def _point(self, engine: Engine, busy_us: float) -> Point:
        """A run that takes about as long as it is to, sized by a short one before."""
        width = self.width or 4 * engine.workers
        steps = 4
        while True:
            app = Stencil(pattern=self.pattern, width=width, steps=steps, busy_us=busy_us)
            begun = time.perf_counter()
            result = app.run(engine, Path())
            took = time.perf_counter() - begun
            app.check(result)
            if took >= self.seconds / 2:
                return Point(busy_us, took * engine.workers / (width * steps) * 1e6)
            steps = max(2 * steps, min(round(steps * self.seconds / took), 50 * steps))
