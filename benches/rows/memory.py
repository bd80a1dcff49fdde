"""The memory of the client: for each outstanding task, and over ten million of them."""

import gc
import os
from collections import deque
from typing import Any

from benches import engines, machine
from benches.engines import PEERS
from benches.engines.base import Engine
from benches.harness import opened
from benches.model import ALONE, Block, Goal, Line, Recording, Row, Settings
from benches.work import hold, noop
from gristmill_bench.executors.base import scratch

OUTSTANDING = 1_000_000
#: The number for peers, which cost up to 2 ms for each submission. The figure is per task.
OUTSTANDING_PEER = 10_000
WARM_TASKS = 10_000

FLAT_TASKS = 10_000_000
IN_FLIGHT = 10_000


class OutstandingRow(Row):
    """Resident bytes of the client per outstanding no-op, while a sleeping task holds the worker.

    The list that holds the futures exists before the first reading. The futures, the arguments that the engine keeps,
    and its own tables count.
    """

    key = "memory"
    title = "memory per outstanding no-op"
    unit = "B"
    peers = ("ppe", "pool", "htex", "ray", "dask")

    def blocks(self, settings: Settings) -> list[Block]:
        ours, peers = (2, 1) if settings.quick else (5, 3)
        return [Block(ALONE, ours), *(Block(peer, peers) for peer in self.peers)]

    def lines(self) -> list[Line]:
        ours = Line(self.title, ALONE, "lower", must=Goal(250), moonshot=Goal(160))
        return [
            ours,
            *(
                Line(self.title, ALONE, "lower", "ours", "peer", PEERS[peer].name, peer)
                for peer in self.peers
            ),
        ]

    def measure(self, block: str, settings: Settings) -> Recording:
        alone = block == ALONE
        engine = engines.ours(settings.ours, 1) if alone else engines.peer(block, 1)
        count = OUTSTANDING if engine.size_share == 1 else OUTSTANDING_PEER
        recording = Recording(parameters={"workers": 1, "outstanding": count})
        with scratch() as folder, opened(engine):
            per_task, parts = outstanding(engine, count, f"{folder}/gate")
        recording.parameters["parts of growth"] = parts
        recording.add("B", {"ours" if alone else "peer": [per_task]})
        return recording


def outstanding(engine: Engine, count: int, gate: str) -> tuple[float, dict[str, int]]:
    """Measures the growth of this process per task while `count` of them wait."""
    engine.collect([engine.submit(noop, number) for number in range(WARM_TASKS // 10)])
    os.mkfifo(gate)
    held = engine.submit(hold, gate)
    futures: list[Any] = [None] * count
    submit = engine.submit
    gc.collect()
    before, parts_before = machine.resident(), machine.resident_parts()
    for number in range(count):
        futures[number] = submit(noop, number)
    gc.collect()
    after, parts_after = machine.resident(), machine.resident_parts()
    with open(gate, "r+b", buffering=0):
        engine.result(held)
    engine.collect(futures)
    parts = {name: parts_after[name] - parts_before[name] for name in parts_after}
    return (after - before) / count, parts


class FlatRow(Row):
    """Growth of the client over ten million tasks with ten thousand in flight, in percent."""

    key = "flat"
    title = "client memory over 10 M tasks"
    unit = "%"

    def blocks(self, settings: Settings) -> list[Block]:
        return [Block(ALONE, timeout_s=900)]

    def lines(self) -> list[Line]:
        return [Line(self.title, ALONE, "lower", must=Goal(5), moonshot=Goal(1))]

    def measure(self, block: str, settings: Settings) -> Recording:
        engine = engines.ours(settings.ours, 2)
        share = engine.size_share * (0.1 if settings.quick else 1)
        tasks = round(FLAT_TASKS * share)
        with opened(engine):
            readings = stream(engine, tasks, tasks // 100)
        # The first tenth of the readings is the warm-up, a million of ten million tasks. Later growth is a leak.
        base = readings[len(readings) // 10 - 1]
        growth = [100 * (size / base - 1) for size in readings[len(readings) // 10 :]]
        recording = Recording(parameters={"tasks": tasks, "in flight": IN_FLIGHT, "workers": 2})
        recording.add("B", {"resident": [float(size) for size in readings]})
        recording.add("%", {"growth": growth, "ours": [max(growth)]})
        return recording


def stream(engine: Engine, tasks: int, every: int) -> list[int]:
    """Runs `tasks` through a window. Returns the resident size after each `every` of them."""
    submit, result = engine.submit, engine.result
    window: deque[Any] = deque()
    readings = []
    for number in range(1, tasks + 1):
        window.append(submit(noop, number))
        if len(window) >= IN_FLIGHT:
            result(window.popleft())
        if number % every == 0:
            readings.append(machine.resident())
    while window:
        result(window.popleft())
    return readings
