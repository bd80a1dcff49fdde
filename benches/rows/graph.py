"""Tasks that depend on tasks: a chain and a fan.

Engines that take futures as arguments are given futures. For the others the program waits for each result and passes it
on, as their users do.
"""

from collections.abc import Callable
from typing import ClassVar

from benches.engines.base import Engine
from benches.harness import Measure, cost, seconds, sized
from benches.model import Goal, Recording, Settings
from benches.rows.contests import ContestRow
from benches.work import step, total

LINKS = 100_000
WIDTH = 1_000


def chain(engine: Engine) -> Callable[[int], object]:
    """Returns a run of a chain of `count` links. Its result proves that each link ran."""
    submit, result, native = engine.submit, engine.result, engine.accepts_futures

    def run(count: int) -> object:
        link = submit(step, 0)
        for _ in range(count - 1):
            link = submit(step, link if native else result(link))
        if result(link) != count:
            raise RuntimeError(f"{engine.name} lost a link")
        return None

    return run


def fan(engine: Engine) -> Callable[[int], object]:
    """Returns a run of `count` fans 1 -> WIDTH -> 1, one after the other."""
    submit, result, native = engine.submit, engine.result, engine.accepts_futures

    def run(count: int) -> object:
        for _ in range(count):
            root = submit(step, 0)
            source = root if native else result(root)
            middle = [submit(step, source) for _ in range(WIDTH)]
            last = submit(total, *(middle if native else engine.collect(middle)))
            if result(last) != 2 * WIDTH:
                raise RuntimeError(f"{engine.name} returned a wrong sum")
        return None

    return run


class ChainRow(ContestRow):
    """A chain of 100,000 futures, seconds a link; peers run shorter ones."""

    key = "chain"
    title = "chain of 100,000, per link"
    workers = 2
    unit = "s"
    better = "lower"
    peers = ("ppe", "pool", "htex", "parsl-threads", "ray", "dask")
    must = Goal(1.5e-6)
    moonshot = Goal(0.2e-6)

    def side(self, settings: Settings, key: str, engine: Engine, recording: Recording) -> Measure:
        run = chain(engine)
        if engine.size_share == 1:
            count = LINKS
            seconds(run, count)
        else:
            count = sized(settings, run, high=LINKS)
        recording.parameters[f"{key} links"] = count
        return cost(key, run, count)


class FanRow(ContestRow):
    """1 -> 1,000 -> 1, in tasks a second."""

    key = "fan"
    title = "fan 1 -> 1,000 -> 1"
    workers = 2
    unit = "/s"
    better = "higher"
    peers = ("ppe", "pool", "htex", "parsl-threads", "ray", "dask")
    peer_musts: ClassVar = {"ppe": Goal(50, "ratio")}
    peer_moonshots: ClassVar = {"ppe": Goal(200, "ratio")}

    def side(self, settings: Settings, key: str, engine: Engine, recording: Recording) -> Measure:
        run = fan(engine)
        count = sized(settings, run, low=1)
        recording.parameters.update({f"{key} fans": count, "width": WIDTH})
        return lambda: {key: count * (WIDTH + 2) / seconds(run, count)}
