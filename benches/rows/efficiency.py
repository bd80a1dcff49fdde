"""Compute-bound tasks of one length on all cores: our engine against a pool whose chunk size was chosen by hand."""

from benches.engines import PEERS
from benches.full_machine import PEER, WAYS, WORKERS, compare
from benches.harness import contest, turns_per_second
from benches.model import Block, Goal, Line, Recording, Row, Settings

#: Run times of a task, seconds.
LENGTHS = (20e-6, 50e-6, 100e-6, 200e-6, 500e-6, 1e-3, 5e-3)
#: Lengths from which on each way of waiting must be as fast as the pool, and from which on 0.9 times as fast.
LEVEL_FROM = {"map": 50e-6, "submit": 50e-6, "as_completed": 200e-6, "wait": 200e-6}
CLOSE_FROM = {"as_completed": 50e-6, "wait": 50e-6}


class EfficiencyRow(Row):
    """Fixed work of 20 us to 5 ms; speed of each way to wait against the pool's `map` with its best chunk."""

    key = "efficiency"
    title = "compute-bound tasks"
    unit = "/s"

    def blocks(self, settings: Settings) -> list[Block]:
        return [Block(name(length)) for length in LENGTHS]

    def lines(self) -> list[Line]:
        return [
            Line(
                f"{self.title} of {name(length)}, {way}",
                name(length),
                "higher",
                ours=f"ours {way}",
                reference="peer",
                reference_name=f"{PEERS[PEER].name}.map, best chunk",
                must=must(way, length),
                moonshot=Goal(1.05, "ratio"),
            )
            for length in LENGTHS
            for way in WAYS
        ]

    def measure(self, block: str, settings: Settings) -> Recording:
        length = next(length for length in LENGTHS if name(length) == block)
        count = max(16 * WORKERS, round(3 * settings.sample_s * WORKERS / length))
        turns = [round(turns_per_second() * length)] * count
        recording = Recording(parameters={"workers": WORKERS, "tasks": count, "turns": turns[0]})
        with contest(settings, PEER, WORKERS) as sides:
            recording.add(self.unit, compare(settings, sides, turns, recording, samples=15))
        return recording


def must(way: str, length: float) -> Goal | None:
    """Returns the promised speed of a way to wait, over the pool's."""
    if length >= LEVEL_FROM[way]:
        return Goal(1.0, "ratio")
    return Goal(0.9, "ratio") if length >= CLOSE_FROM.get(way, length + 1) else None


def name(length: float) -> str:
    """Returns a length as a name: 20us, 1ms."""
    return f"{length * 1e6:.0f}us" if length < 1e-3 else f"{length * 1e3:.0f}ms"
