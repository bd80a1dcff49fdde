"""Compute-bound tasks of very different lengths on all cores, against a pool whose chunk size was chosen by hand."""

import random

from benches.engines import PEERS
from benches.full_machine import PEER, WORKERS, compare
from benches.harness import contest, turns_per_second
from benches.model import Block, Goal, Line, Recording, Row, Settings

TASKS = 20_000
#: The median run time in seconds, and the spread of the logarithms.
MEDIAN_S = 200e-6
SIGMA = 1.5
WAYS = ("map", "submit")


class UnevenRow(Row):
    """Run times drawn from a lognormal distribution: a few tasks take a hundred times as long as most."""

    key = "uneven"
    title = "uneven compute-bound tasks"
    unit = "/s"

    def blocks(self, settings: Settings) -> list[Block]:
        return [Block(PEER)]

    def lines(self) -> list[Line]:
        return [
            Line(
                f"{self.title}, {way}",
                PEER,
                "higher",
                ours=f"ours {way}",
                reference="peer",
                reference_name=f"{PEERS[PEER].name}.map, best chunk",
                must=Goal(1.0, "ratio"),
                moonshot=Goal(1.05, "ratio"),
            )
            for way in WAYS
        ]

    def measure(self, block: str, settings: Settings) -> Recording:
        draw = random.Random(2026)
        median_turns = turns_per_second() * MEDIAN_S
        count = TASKS // 10 if settings.quick else TASKS
        turns = [round(median_turns * draw.lognormvariate(0, SIGMA)) for _ in range(count)]
        recording = Recording(parameters={"workers": WORKERS, "tasks": count})
        with contest(settings, PEER, WORKERS) as sides:
            recording.add(self.unit, compare(settings, sides, turns, recording, 5, WAYS))
        return recording
