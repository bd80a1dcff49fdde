"""Timing: sample sizes, alternation of the sides, and pools that stay warm between the samples."""

import gc
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from time import perf_counter, sleep

from benches import engines, work
from benches.engines.base import Engine
from benches.model import Settings

#: The silence before each sample, seconds. It exceeds the spin window of any engine here (2 ms), so that the workers of
#: the other side sleep while this one is measured.
SETTLE_S = 0.006

Measure = Callable[[], Mapping[str, float]]


def alternate(
    settings: Settings, *sides: Measure, samples: int = 0, least: int = 0
) -> dict[str, list[float]]:
    """Takes samples A B A B ... until every series is long enough, or the budget is spent and there are `least`."""
    wanted, least = samples or settings.samples, least or settings.samples_min
    series: dict[str, list[float]] = {}
    end = perf_counter() + settings.budget_s
    for taken in range(wanted):
        if taken >= least and perf_counter() > end:
            break
        for side in sides:
            gc.collect()
            sleep(SETTLE_S)
            for key, value in side().items():
                series.setdefault(key, []).append(value)
    return series


def seconds(run: Callable[[int], object], count: int) -> float:
    """Measures one run of `count` operations."""
    start = perf_counter()
    run(count)
    return perf_counter() - start


def turns_per_second() -> float:
    """Measures how many turns of the fixed loop of work a core does in a second: the best of several looks."""
    turns = 200_000
    return turns / min(seconds(work.turn, turns) for _ in range(20))


def sized(
    settings: Settings, run: Callable[[int], object], *, low: int = 64, high: int = 4_000_000
) -> int:
    """Finds the number of operations that fill one sample. The search also warms the engine up."""
    count = low
    run(count)
    while True:
        took = seconds(run, count)
        if took >= settings.sample_s / 2 or count >= high:
            break
        count = min(high, count * 2)
    return max(low, min(high, round(count * settings.sample_s / took)))


def rate(key: str, run: Callable[[int], object], count: int) -> Measure:
    """Makes a side whose samples are operations a second."""
    return lambda: {key: count / seconds(run, count)}


def cost(key: str, run: Callable[[int], object], count: int) -> Measure:
    """Makes a side whose samples are seconds an operation."""
    return lambda: {key: seconds(run, count) / count}


@contextmanager
def opened(*engines: Engine) -> Iterator[None]:
    """Starts the engines and checks each with a task; closes them at exit.

    Peers come first: those that fork do so before this process has a thread.
    """
    started: list[Engine] = []
    try:
        for engine in engines:
            engine.start()
            started.append(engine)
            if engine.result(engine.submit(work.noop, 7)) != 7:
                raise RuntimeError(f"{engine.name} returned a wrong result")
        yield
    finally:
        for engine in reversed(started):
            engine.close()


@contextmanager
def contest(
    settings: Settings, peer: str | None, workers: int
) -> Iterator[list[tuple[str, Engine]]]:
    """Opens our engine, and the peer if one is named; yields (series key, engine) in order."""
    ours = engines.ours(settings.ours, workers)
    if peer is None:
        with opened(ours):
            yield [("ours", ours)]
        return
    other = engines.peer(peer, workers)
    with opened(other, ours):
        yield [("ours", ours), ("peer", other)]


def percentile(ordered: Sequence[float], share: float) -> float:
    """Returns a percentile of sorted samples, by the nearest rank."""
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))]
