"""METG(50 %): the task granularity at which half of the workers' time is lost (Slaughter et al., SC 2020, section IV).

The *granularity* of a run is the time of its workers divided by its tasks; its *efficiency* is the share of that time
in which tasks compute. METG(50 %) is the granularity at which the efficiency falls below one half: the lower it is, the
shorter are the tasks that an engine runs well.
"""

from __future__ import annotations

import time
from pathlib import Path
from typing import Annotated, NamedTuple

from pydantic import Field

from gristmill_bench.apps.base import App
from gristmill_bench.apps.stencil import Pattern, Stencil
from gristmill_bench.engine import Engine
from gristmill_bench.errors import WrongResult

#: Efficiency at which the granularity is sought.
HALF = 0.5
#: Bounds of the search in microseconds; an engine beyond them is made for other tasks.
_SHORTEST_US, _LONGEST_US = 0.1, 1e6


class Point(NamedTuple):
    """One run: microseconds that each task computed, and the granularity; the efficiency is their ratio."""

    busy_us: float
    granularity_us: float

    @property
    def efficiency(self) -> float:
        """Share of the workers' time in which tasks computed."""
        return self.busy_us / self.granularity_us


class Metg(App):
    """The granularity at which half of the workers' time is lost, with a graph of Task Bench."""

    pattern: Pattern = "stencil"
    #: Tasks of a step; four for each worker if not given.
    width: Annotated[int, Field(ge=1)] | None = None
    #: Seconds that each run of the search should take.
    seconds: Annotated[float, Field(gt=0)] = 0.2

    def run(self, engine: Engine, folder: Path) -> list[Point]:
        """Returns the measured points of the curve, sorted by how long tasks compute.

        The search begins with the shortest tasks, whose granularity is almost only overhead, and continues with tasks
        that compute for a quarter of that granularity. It then doubles this time until tasks are long enough, or halves
        it until they are not, and bisects the interval between the last two times.
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
        """Checks that no task computes longer than its worker has time, and that the efficiency crosses one half."""
        impossible = [one for one in result if not 0 < one.efficiency <= 1.02]
        if impossible:
            raise WrongResult(f"an efficiency of {impossible[0].efficiency:.3f}")
        return f"METG(50 %) = {self.figures(result)['metg_us']:.3g} us, with {self.pattern}"

    def figures(self, result: list[Point]) -> dict[str, float]:
        """Returns the granularity at the crossing, interpolated between its two neighbours on a logarithmic scale."""
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
        """Repeats a run with more steps until it takes at least half of ``seconds``; returns its point."""
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
