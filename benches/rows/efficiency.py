"""Compute-bound tasks on all cores: our engine against a pool whose chunk size was chosen by hand."""

import os
import random
import resource
from collections.abc import Callable, Sequence
from concurrent.futures import as_completed, wait
from time import perf_counter, process_time
from typing import Any

from benches import work
from benches.engines import PEERS
from benches.engines.base import Engine
from benches.harness import alternate, contest, seconds, turns_per_second
from benches.model import Block, Goal, Line, Recording, Row, Settings

WORKERS = len(os.sched_getaffinity(0))
PEER = "ppe"
#: Chunk sizes among which the pool's best one is chosen, in a pass of its own.
CHUNKS = (1, 4, 16, 64, 256, 1024)
#: Run times of a task, seconds.
LENGTHS = (20e-6, 50e-6, 100e-6, 200e-6, 500e-6, 1e-3, 5e-3)
#: Lengths from which on each way of waiting must be as fast as the pool, and from which on 0.9 times as fast.
LEVEL_FROM = {"map": 50e-6, "submit": 50e-6, "as_completed": 200e-6, "wait": 200e-6}
CLOSE_FROM = {"as_completed": 50e-6, "wait": 50e-6}
#: The length and the number of tasks with which the client's own work is counted.
COUNTED_LENGTH = 200e-6
COUNTED_TASKS = 20_000
#: Uneven run times: their number, their median in seconds, and the spread of their logarithms.
UNEVEN_TASKS = 20_000
UNEVEN_MEDIAN = 200e-6
UNEVEN_SIGMA = 1.5


def ways(engine: Engine) -> dict[str, Callable[[Sequence[int]], object]]:
    """Returns the ways to run one loop for each number of turns, by name."""

    def submit_all(turns: Sequence[int]) -> list[Any]:
        return [engine.submit(work.turn, count) for count in turns]

    return {
        "map": lambda turns: list(engine.executor.map(work.turn, turns)),
        "submit": lambda turns: engine.collect(submit_all(turns)),
        "as_completed": lambda turns: [one.result() for one in as_completed(submit_all(turns))],
        "wait": lambda turns: wait(submit_all(turns)),
    }


def pool_map(engine: Engine, turns: Sequence[int], chunk: int) -> object:
    """Runs the loops on the pool in chunks."""
    return list(engine.executor.map(work.turn, turns, chunksize=chunk))


def best_chunk(engine: Engine, turns: Sequence[int]) -> int:
    """Finds the pool's fastest chunk size: the best of two runs for each."""

    def took(chunk: int) -> float:
        return min(seconds(lambda _: pool_map(engine, turns, chunk), 0) for _ in range(2))

    return min((chunk for chunk in CHUNKS if chunk * WORKERS <= len(turns)), key=took)


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
            for way in LEVEL_FROM
        ]

    def measure(self, block: str, settings: Settings) -> Recording:
        length = next(length for length in LENGTHS if name(length) == block)
        count = max(16 * WORKERS, round(3 * settings.sample_s * WORKERS / length))
        turns = [round(turns_per_second() * length)] * count
        recording = Recording(parameters={"workers": WORKERS, "tasks": count, "turns": turns[0]})
        with contest(settings, PEER, WORKERS) as sides:
            recording.add(self.unit, compare(settings, sides, turns, recording, samples=15))
        return recording


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
            for way in ("map", "submit")
        ]

    def measure(self, block: str, settings: Settings) -> Recording:
        draw = random.Random(2026)
        median_turns = turns_per_second() * UNEVEN_MEDIAN
        count = UNEVEN_TASKS // 10 if settings.quick else UNEVEN_TASKS
        turns = [round(median_turns * draw.lognormvariate(0, UNEVEN_SIGMA)) for _ in range(count)]
        recording = Recording(parameters={"workers": WORKERS, "tasks": count})
        with contest(settings, PEER, WORKERS) as sides:
            recording.add(self.unit, compare(settings, sides, turns, recording, samples=5))
        return recording


class DisturbanceRow(Row):
    """Costs of the client of a full machine: its processor time, its wake-ups, and the workers that it preempts."""

    key = "disturbance"
    title = f"{COUNTED_TASKS:,} tasks of 200 us"
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
        count = COUNTED_TASKS // 10 if settings.quick else COUNTED_TASKS
        turns = [round(turns_per_second() * COUNTED_LENGTH)] * count
        recording = Recording(parameters={"workers": WORKERS, "tasks": count})
        with contest(settings, PEER, WORKERS) as sides:
            (_, ours), (_, pool) = sides
            chunk = best_chunk(pool, turns)
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
    for pid in below(os.getpid()):
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


def below(root: int) -> list[int]:
    """Returns the processes below one."""
    children: dict[int, list[int]] = {}
    for name in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{name}/stat") as stat:
                parent = int(stat.read().rpartition(")")[2].split()[1])
        except OSError:
            continue
        children.setdefault(parent, []).append(int(name))
    found: list[int] = []
    to_visit = [root]
    while to_visit:
        new = children.get(to_visit.pop(), [])
        found += new
        to_visit += new
    return found


def compare(
    settings: Settings,
    sides: list[tuple[str, Engine]],
    turns: Sequence[int],
    recording: Recording,
    samples: int,
) -> dict[str, list[float]]:
    """Measures each way to wait, and the pool with its best chunk, in turns; tasks a second."""
    (_, ours), (_, pool) = sides
    chunk = best_chunk(pool, turns)
    recording.parameters["chunk"] = chunk

    def side(key: str, run: Callable[[Sequence[int]], object]) -> Callable[[], dict[str, float]]:
        run(turns)
        return lambda: {key: len(turns) / seconds(lambda _: run(turns), 0)}

    measures = [side(f"ours {way}", run) for way, run in ways(ours).items()]
    peer = side("peer", lambda all_turns: pool_map(pool, all_turns, chunk))
    return alternate(settings, *measures, peer, samples=samples)


def must(way: str, length: float) -> Goal | None:
    """Returns the promised speed of a way to wait, over the pool's."""
    if length >= LEVEL_FROM[way]:
        return Goal(1.0, "ratio")
    return Goal(0.9, "ratio") if length >= CLOSE_FROM.get(way, length + 1) else None


def name(length: float) -> str:
    """Returns a length as a name: 20us, 1ms."""
    return f"{length * 1e6:.0f}us" if length < 1e-3 else f"{length * 1e3:.0f}ms"
