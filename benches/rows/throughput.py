"""Tasks a second: `submit` one by one, and `map`."""

from collections.abc import Callable
from typing import ClassVar

from benches.engines import PEERS
from benches.engines.base import Engine
from benches.harness import Measure, rate, seconds, sized
from benches.model import Goal, Recording, Settings
from benches.rows.contests import ContestRow
from benches.work import noop

#: The number of items of a `map`, the same for every engine: 100 ms at ten million a second.
MAP_ITEMS = 1_000_000


def burst(engine: Engine) -> Callable[[int], object]:
    """Returns a run of `count` submissions one by one, then all results."""
    submit, collect = engine.submit, engine.collect

    def run(count: int) -> object:
        return collect([submit(noop, number) for number in range(count)])

    return run


class SubmitRow(ContestRow):
    """`submit(f, i)` one by one, then all results."""

    key = "submit"
    title = "submit one by one, all results"
    workers = 2
    unit = "/s"
    better = "higher"
    peers = tuple(PEERS)
    moonshot = Goal(5e6)
    peer_musts: ClassVar = {
        "ppe": Goal(200, "ratio"),
        "pool": Goal(50, "ratio"),
        "ray": Goal(1_000, "ratio"),
        "htex": Goal(1_700, "ratio"),
    }

    def side(self, settings: Settings, key: str, engine: Engine, recording: Recording) -> Measure:
        run = burst(engine)
        count = sized(settings, run)
        recording.parameters[f"{key} tasks"] = count
        return rate(key, run, count)


class MapRow(ContestRow):
    """`map(f, range(N))` as a list. Ours is called without a chunk size, peers with their best one."""

    key = "map"
    title = "map as a list"
    workers = 2
    unit = "/s"
    better = "higher"
    peers = ("pool", "ppe", "loky")
    peer_musts: ClassVar = {"pool": Goal(1, "ratio")}
    peer_moonshots: ClassVar = {"pool": Goal(2, "ratio")}

    def side(self, settings: Settings, key: str, engine: Engine, recording: Recording) -> Measure:
        items = MAP_ITEMS // 4 if settings.quick else MAP_ITEMS
        chunk = None
        if key == "peer":
            chunk = best_chunk(engine, items)
        elif engine.size_share < 1:
            items = round(items * engine.size_share)
        recording.parameters.update({f"{key} items": items, f"{key} chunk": chunk})

        def run(count: int) -> object:
            return engine.map(noop, range(count), chunk)

        run(items)
        return rate(key, run, items)


def best_chunk(engine: Engine, items: int) -> int | None:
    """Finds the fastest chunk size, including the engine's default if that is not one item.

    Takes the best of three runs for each size, so that one disturbance does not hide a good size.
    """
    candidates: list[int | None] = list(engine.chunks)
    if engine.key == "pool":
        candidates.append(None)

    def took(chunk: int | None) -> float:
        def run(count: int) -> object:
            return engine.map(noop, range(count), chunk)

        return min(seconds(run, items) for _ in range(3))

    return min(candidates, key=took)
