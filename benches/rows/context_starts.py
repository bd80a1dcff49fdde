"""A heavy environment: the cost of the first worker with a context, of the second, and of a call."""

import os
from functools import partial
from statistics import median
from time import perf_counter, sleep

from benches.contexts import environment
from benches.contexts.levels import Level
from benches.harness import Measure, alternate, opened
from benches.model import Block, Goal, Line, Recording, Row, Settings, Unavailable
from benches.rows.replace import held, successor
from benches.work import noop

STARTS, ANEW = "starts", "anew"
#: The calls of a sample; their median counts.
INVOCATIONS = 200
PAUSE_S = 0.5


class ContextStartRow(Row):
    """The time until a result: anew with cold and with warm files, on the first worker, on the second, on a running
    one.

    These are the parts of table 5. The second worker is started while a task holds the first, in a new executor for
    each sample, because a worker that ran before is not a cold start.
    """

    key = "context-start"
    title = "heavy environment"
    unit = "s"

    def blocks(self, settings: Settings) -> list[Block]:
        return [Block(STARTS, timeout_s=600), Block(ANEW, timeout_s=600)]

    def lines(self) -> list[Line]:
        return [
            Line(f"{self.title}, L2 cold: files not cached", ANEW, "lower", "cold"),
            Line(f"{self.title}, L2 hot", ANEW, "lower", "hot"),
            Line(f"{self.title}, L3 library: first worker", STARTS, "lower", "library"),
            Line(
                f"{self.title}, second worker with the context",
                STARTS,
                "lower",
                "second",
                "library",
                "the first worker",
                must=Goal(50e-3),
                moonshot=Goal(10e-3),
            ),
            Line(f"{self.title}, the same half a second later", STARTS, "lower", "later"),
            Line(f"{self.title}, L3 invocation", STARTS, "lower", "invocation"),
        ]

    def measure(self, block: str, settings: Settings) -> Recording:
        environment.needed(*environment.HEAVY)
        count = environment.distribution_count()
        if count < environment.DISTRIBUTIONS_MIN:
            raise Unavailable(f"{count} distributions are installed: no heavy environment")
        recording = Recording(
            parameters={"workers": 2, "distributions": count, "imported": environment.HEAVY}
        )
        if block == STARTS:
            sides: list[Measure] = [partial(starts, settings), partial(later, settings)]
            recording.add(self.unit, alternate(settings, *sides))
            return recording
        level = Level(settings, "L2", environment.imported, environment.HEAVY)
        with opened(level.engine):
            paths = list(environment.files())
            level.call(noop, 0)
            anew = [first("hot", level, []), first("cold", level, paths)]
            recording.add(self.unit, alternate(settings, *anew))
        recording.parameters["files"] = len(paths)
        return recording


def first(key: str, level: Level, forgotten: list[str]) -> Measure:
    """Makes a side that calls once, after the kernel has dropped the cached files."""

    def sample() -> dict[str, float]:
        environment.forget(forgotten)
        start = perf_counter()
        level.call(noop, 0)
        return {key: perf_counter() - start}

    return sample


def starts(settings: Settings) -> dict[str, float]:
    """Starts two workers, the second while the first is busy, and calls."""
    level = Level(settings, "L3", environment.imported, environment.HEAVY, workers=2)
    with opened(level.engine):
        start = perf_counter()
        there = level.call(os.getpid)
        library = perf_counter() - start
        second = beside(level, there)
        took = []
        for number in range(INVOCATIONS):
            start = perf_counter()
            level.call(noop, number)
            took.append(perf_counter() - start)
    return {"library": library, "second": second, "invocation": median(took)}


def later(settings: Settings) -> dict[str, float]:
    """Starts the second worker after a pause in which the first one's start can finish its remaining work."""
    level = Level(settings, "L3", environment.imported, environment.HEAVY, workers=2)
    with opened(level.engine):
        there = level.call(os.getpid)
        sleep(PAUSE_S)
        return {"later": beside(level, there)}


def beside(level: Level, there: int) -> float:
    """Times the first result of a second worker while the existing one is held."""
    inside = level.inside
    with held(inside):
        start = perf_counter()
        successor(inside, there)
        return perf_counter() - start
