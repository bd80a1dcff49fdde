"""Small maps, again and again, as samplers of ensembles make them: `list(map(f, items))` with a few items of 5 us."""

from typing import Any

from benches import work
from benches.engines import PEERS
from benches.engines.base import Engine
from benches.harness import Measure, alternate, contest, cost, turns_per_second
from benches.model import Block, Goal, Line, Recording, Row, Settings

WORKERS = 2
PEER = "pool"
LENGTH_S = 5e-6
#: Repetitions of one sample.
MAPS = 50
#: Numbers of items; what is promised of each, and hoped for.
SIZES: dict[int, tuple[Goal, Goal]] = {
    4: (Goal(0.10, "ratio"), Goal(0.08, "ratio")),
    16: (Goal(0.38, "ratio"), Goal(0.2, "ratio")),
    32: (Goal(0.30, "ratio"), Goal(0.3, "ratio")),
    100: (
        Goal(100 * LENGTH_S / WORKERS + 60e-6),
        Goal(100 * LENGTH_S / WORKERS + 25e-6),
    ),
    1000: (Goal(0.95, "ratio"), Goal(0.9, "ratio")),
}


class SmallMapRow(Row):
    """Ours without a chunk size against `multiprocessing.Pool.map` with its own."""

    key = "small-map"
    title = "small map"
    unit = "s"

    def blocks(self, settings: Settings) -> list[Block]:
        return [Block(str(size)) for size in SIZES]

    def lines(self) -> list[Line]:
        return [
            Line(
                f"{self.title} of {size} items of 5 us",
                str(size),
                "lower",
                reference="peer",
                reference_name=PEERS[PEER].name,
                must=must,
                moonshot=moonshot,
            )
            for size, (must, moonshot) in SIZES.items()
        ]

    def measure(self, block: str, settings: Settings) -> Recording:
        turns = round(turns_per_second() * LENGTH_S)
        recording = Recording(parameters={"workers": WORKERS, "turns": turns})
        with contest(settings, PEER, WORKERS) as sides:
            measures = [side(key, engine, int(block), turns) for key, engine in sides]
            recording.add(self.unit, alternate(settings, *measures))
        return recording


def side(key: str, engine: Engine, size: int, turns: int) -> Measure:
    """Makes the side of one engine: seconds a map."""
    items: Any = [turns] * size

    def run(count: int) -> object:
        return [engine.map(work.turn, items, None) for _ in range(count)]

    run(MAPS)
    return cost(key, run, MAPS)
