"""Costs of the client of a full machine: processor time, wake-ups, and the workers that it preempts."""

import resource
from collections.abc import Callable
from time import perf_counter, process_time

from benches.engines import PEERS
from benches.full_machine import PEER, WORKERS, best_pool_chunk, pool_map, ways
from benches.harness import alternate, contest, turns_per_second
from benches.model import Block, Goal, Line, Recording, Row, Settings
from gristmill import instruments

TASKS = 20_000
LENGTH_S = 200e-6


class DisturbanceRow(Row):
    """Costs of the client of a full machine: its processor time, its wake-ups, and the workers that it preempts."""

    key = "disturbance"
    title = f"{TASKS:,} tasks of 200 us"
    unit = "%"

    def blocks(self, settings: Settings) -> list[Block]:
        return [Block(PEER)]

    def lines(self) -> list[Line]:
        return [
            Line(
                f"{self.title}, {what}",
                PEER,
                "lower",
                ours=f"ours {key}",
                reference=f"peer {key}",
                reference_name=f"{PEERS[PEER].name}.map, best chunk",
                must=Goal(limit),
                moonshot=Goal(moonshot),
            )
            for key, what, limit, moonshot in (
                ("cpu", "client's share of the processors' time", 1.5, 0.3),
                ("wakes", "wake-ups of the client per task", 10, 3),
                ("switches", "preemptions of workers per task", 2.5, 1),
            )
        ]

    def measure(self, block: str, settings: Settings) -> Recording:
        count = TASKS // 10 if settings.quick else TASKS
        turns = [round(turns_per_second() * LENGTH_S)] * count
        recording = Recording(parameters={"workers": WORKERS, "tasks": count})
        with contest(settings, PEER, WORKERS) as sides:
            (_, ours), (_, pool) = sides
            chunk = best_pool_chunk(pool, turns)
            recording.parameters["chunk"] = chunk
            recording.add(
                self.unit,
                alternate(
                    settings,
                    lambda: disturbance("ours", lambda: ways(ours)["map"](turns), count),
                    lambda: disturbance("peer", lambda: pool_map(pool, turns, chunk), count),
                    samples=5,
                ),
            )
        return recording


def disturbance(key: str, run: Callable[[], object], count: int) -> dict[str, float]:
    """Runs once. Returns, in per cent, the client's share of the processors' time, its wake-ups per task, and the
    preemptions of the processes below it per task.
    """
    used, wakes, switches = process_time(), wake_ups(), preemptions()
    wall = perf_counter()
    run()
    wall = perf_counter() - wall
    return {
        f"{key} cpu": 100 * (process_time() - used) / (WORKERS * wall),
        f"{key} wakes": 100 * (wake_ups() - wakes) / count,
        f"{key} switches": 100 * (preemptions() - switches) / count,
    }


def wake_ups() -> int:
    """Returns how often threads of this process gave up their core to wait."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_nvcsw


def preemptions() -> int:
    """Returns how often processes below this one lost their core while they could run."""
    total = 0
    for pid in instruments.descendants():
        try:
            with open(f"/proc/{pid}/status") as status:
                total += next(
                    int(line.split()[1])
                    for line in status
                    if line.startswith("nonvoluntary_ctxt_switches")
                )
        except OSError:
            continue
    return total
