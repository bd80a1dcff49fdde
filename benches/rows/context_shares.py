"""Deployments of a context, and calls for each of them, as calls complete: the shapes of figures 10 and 11."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import median

from benches import work
from benches.contexts import charts
from benches.contexts.charts import point
from benches.contexts.levels import Level
from benches.harness import Measure, alternate, opened
from benches.model import ALONE, Block, Goal, Line, Recording, Row, Settings

WORKERS = 4
CALLS = 20_000
#: The numbers of completed calls after which the report is read.
STEPS = tuple(CALLS * tenths // 10 for tenths in range(1, 11))
CALL_S = 100e-6
#: The least growth of calls for each deployment: as the calls grow, less a margin for workers that start late.
GROWTH_MIN = 0.8 * STEPS[-1] / STEPS[0]


class SharesRow(Row):
    """The report of a context while many calls of a tenth of a millisecond run on four workers.

    The expected shapes: deployments rise to what the load needs, and stay there; from then on each serves more and more
    calls.
    """

    key = "context-shares"
    title = "context under load"
    unit = "objects"

    def blocks(self, settings: Settings) -> list[Block]:
        return [Block(ALONE)]

    def lines(self) -> list[Line]:
        first, last = STEPS[0], STEPS[-1]
        workers = f"{self.title}, workers deployed after {last:,} calls"
        shares = f"{self.title}, calls for each after {last:,}"
        return [
            Line(
                workers,
                ALONE,
                "lower",
                point("deployed", last),
                point("deployed", first),
                f"after {first:,}",
                must=Goal(WORKERS),
            ),
            Line(
                shares,
                ALONE,
                "higher",
                point("share", last),
                point("share", first),
                f"after {first:,}",
                must=Goal(GROWTH_MIN, "ratio"),
            ),
        ]

    def measure(self, block: str, settings: Settings) -> Recording:
        recording = Recording(parameters={"workers": WORKERS, "call": CALL_S})
        recording.add(self.unit, alternate(settings, looking(settings)))
        return recording

    def draw(self, series: Mapping[tuple[str, str], Sequence[float]], path: Path) -> bool:
        medians = {key: median(samples) for (_, key), samples in series.items()}
        panels = [
            charts.Panel(
                "calls completed",
                label,
                {name: {step: medians[point(name, step)] for step in STEPS}} if medians else {},
            )
            for name, label in (("deployed", "workers deployed"), ("share", "calls for each"))
        ]
        return charts.drawn(panels, path)


def looking(settings: Settings) -> Measure:
    """Makes a side that submits all calls to a new executor, and reads its context's report."""

    def sample() -> dict[str, float]:
        found = {}
        level = Level(settings, "L3", work.nothing, workers=WORKERS)
        with opened(level.engine):
            futures = [level.submit(work.spin, CALL_S) for _ in range(CALLS)]
            done = 0
            for step in STEPS:
                level.engine.collect(futures[done:step])
                done = step
                report = level.report()
                found[point("deployed", step)] = float(report.deployments)
                found[point("share", step)] = report.share_value
            return found

    return sample
