"""Sweeps of inferences per call and of workers at each level: the shapes of figures 8 and 9."""

from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from statistics import median

from benches.contexts import charts, environment, resnet
from benches.contexts.charts import point
from benches.contexts.levels import REUSE, Level
from benches.harness import Measure, alternate, opened
from benches.model import Block, Goal, Line, Recording, Row, Settings
from benches.rows.context_inference import calling, timed

COUNTS = (1, 4, 16, 64)
WORKERS = (1, 2, 4)
#: The calls of one sample of the second sweep, and the inferences of each.
CALLS, CALLS_QUICK, CALL_INFERENCES = 16, 4, 4
INFERENCES, POOL = "inferences", "workers"
#: The limit of two workers' time as a share of one worker's, on two cores.
SHARE_OF_TWO = 0.9


class SweepsRow(Row):
    """The time of calls of more and more inferences, and of the same calls on more and more workers.

    The expected shapes: a context that is kept saves less, the longer the calls are; and workers save time at every
    level as long as there are cores for them.
    """

    key = "context-sweeps"
    title = "ResNet-50"
    unit = "s"

    def blocks(self, settings: Settings) -> list[Block]:
        return [Block(name, timeout_s=1800) for name in (INFERENCES, POOL)]

    def lines(self) -> list[Line]:
        lines = [
            Line(
                f"{self.title}, a call of {count} at L3",
                INFERENCES,
                "lower",
                point("L3", count),
                point("L1", count),
                "at L1",
            )
            for count in COUNTS
        ]
        lines += [
            Line(
                f"{self.title}, calls on {workers} workers at {level}",
                POOL,
                "lower",
                point(level, workers),
                point(level, WORKERS[0]),
                "on one",
                must=Goal(SHARE_OF_TWO, "ratio") if workers == 2 else None,
            )
            for level in REUSE
            for workers in WORKERS[1:]
        ]
        return lines

    def measure(self, block: str, settings: Settings) -> Recording:
        environment.needed("onnx", *environment.HEAVY)
        measure = per_call if block == INFERENCES else per_pool
        recording = Recording(parameters={"of each call": CALL_INFERENCES})
        recording.add(self.unit, measure(settings, str(resnet.file())))
        return recording

    def draw(self, series: Mapping[tuple[str, str], Sequence[float]], path: Path) -> bool:
        medians = {place: median(samples) for place, samples in series.items()}
        panels = [
            charts.Panel(
                label,
                "seconds",
                {
                    level: {step: medians[block, point(level, step)] for step in steps}
                    for level in REUSE
                    if (block, point(level, steps[0])) in medians
                },
            )
            for block, label, steps in (
                (INFERENCES, "inferences in a call", COUNTS),
                (POOL, "workers", WORKERS),
            )
        ]
        return charts.drawn(panels, path)


def per_call(settings: Settings, path: str) -> dict[str, list[float]]:
    """Times one call of each length at each level, on one worker."""
    levels = {name: Level(settings, name, resnet.program, path) for name in REUSE}
    with opened(*(level.engine for level in levels.values())):
        levels["L3"].call(resnet.inferred, levels["L3"].context, 1)
        sides = [
            timed(point(name, count), calling(level, count))
            for count in COUNTS
            for name, level in levels.items()
        ]
        return alternate(settings, *sides)


def per_pool(settings: Settings, path: str) -> dict[str, list[float]]:
    """Times the same calls on each number of workers at each level."""
    count = CALLS_QUICK if settings.quick else CALLS
    sides: list[Measure] = []
    with ExitStack() as stack:
        for workers in WORKERS:
            for name in REUSE:
                level = Level(settings, name, resnet.program, path, workers=workers)
                stack.enter_context(opened(level.engine))
                if name == "L3":
                    together(level, 2 * workers)
                sides.append(timed(point(name, workers), partial(together, level, count)))
        return alternate(settings, *sides)


def together(level: Level, count: int) -> None:
    """Submits `count` calls and waits for all."""
    futures = [level.submit(resnet.inferred, level.context, CALL_INFERENCES) for _ in range(count)]
    level.engine.collect(futures)
