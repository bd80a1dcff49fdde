"""Calls that are waited for: one task at a time, the worker hot or asleep."""

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from time import perf_counter, sleep
from typing import ClassVar

from benches.engines import PEERS
from benches.engines.base import Engine
from benches.harness import Measure, alternate, contest, percentile, sized
from benches.model import ALONE, Block, Goal, Line, Recording, Settings
from benches.rows.contests import ContestRow
from benches.work import noop

#: The calls before the clock starts: they wake the worker and fill its caches.
WARM_CALLS = 50
#: The least number of calls of a sample that has a 99th percentile.
CALLS_MIN = 100
SILENCE_S = 0.1
WAKE = "wake"

#: The other end of the bare wake-up, a program that returns each byte.
_REPEATER = "import os\nwhile byte := os.read(0, 1): os.write(1, byte)"


class HotRow(ContestRow):
    """Calls that are waited for while the worker polls, of a function by name and of one lambda.

    Each time includes one clock reading.
    """

    key = "call"
    title = "call and wait, hot"
    workers = 1
    unit = "s"
    better = "lower"
    peers = tuple(PEERS)

    def lines(self) -> list[Line]:
        goals = {"p50": (Goal(2e-6), Goal(0.7e-6)), "p99": (Goal(5e-6), Goal(1.2e-6))}
        lines = []
        for part, (must, moonshot) in goals.items():
            label, ours = f"{self.title}, {part}", f"ours {part}"
            lines.append(Line(label, ALONE, "lower", ours, must=must, moonshot=moonshot))
            lines += [
                Line(label, peer, "lower", ours, f"peer {part}", PEERS[peer].name)
                for peer in self.peers
            ]
        lines.append(Line(f"{self.title}, one lambda, p50", ALONE, "lower", "ours lambda"))
        return lines

    def side(self, settings: Settings, key: str, engine: Engine, recording: Recording) -> Measure:
        submit, result = engine.submit, engine.result

        def by_value(number: int) -> int:
            return number

        def calls(count: int, function: Callable[[int], object] = noop) -> list[float]:
            took = []
            before = perf_counter()
            for number in range(count):
                result(submit(function, number))
                after = perf_counter()
                took.append(after - before)
                before = after
            return took

        count = sized(settings, calls, low=CALLS_MIN)
        recording.parameters[f"{key} calls"] = count

        def sample() -> dict[str, float]:
            calls(WARM_CALLS)
            took = sorted(calls(count))
            found = {f"{key} p50": percentile(took, 0.5), f"{key} p99": percentile(took, 0.99)}
            if key == "ours":
                calls(WARM_CALLS, by_value)
                found[f"{key} lambda"] = percentile(sorted(calls(count, by_value)), 0.5)
            return found

        return sample


class SilenceRow(ContestRow):
    """A call and its wait after 100 ms without a task, and the bare wake-up of two processes."""

    key = "silence"
    title = "call and wait after 100 ms of silence"
    workers = 1
    unit = "s"
    better = "lower"
    peers = ("ppe", "pool", "ray")
    peer_musts: ClassVar = {"ppe": Goal(0.35, "ratio")}
    samples = 60

    def blocks(self, settings: Settings) -> list[Block]:
        return [Block(WAKE), *(Block(peer) for peer in self.peers)]

    def lines(self) -> list[Line]:
        bare = Line(
            self.title,
            WAKE,
            "lower",
            reference="peer",
            reference_name="bare wake-up (pipes)",
            moonshot=Goal(1, "ratio"),
        )
        return [*(self.peer_line(peer) for peer in self.peers), bare]

    def side(self, settings: Settings, key: str, engine: Engine, recording: Recording) -> Measure:
        submit, result = engine.submit, engine.result
        result(submit(noop, 0))

        def sample() -> dict[str, float]:
            sleep(SILENCE_S)
            start = perf_counter()
            result(submit(noop, 1))
            return {key: perf_counter() - start}

        return sample

    def measure(self, block: str, settings: Settings) -> Recording:
        if block != WAKE:
            return super().measure(block, settings)
        recording = Recording(parameters={"workers": self.workers})
        with repeater() as (sink, source), contest(settings, None, self.workers) as sides:
            ours = self.side(settings, *sides[0], recording)
            bare = wake_up("peer", sink, source)
            recording.add("s", alternate(settings, ours, bare, samples=self.samples))
        return recording


def wake_up(key: str, sink: int, source: int) -> Measure:
    """Makes a side that wakes a silent process by a pipe and is woken by it, without an engine."""

    def sample() -> dict[str, float]:
        sleep(SILENCE_S)
        start = perf_counter()
        os.write(sink, b".")
        os.read(source, 1)
        return {key: perf_counter() - start}

    return sample


@contextmanager
def repeater() -> Iterator[tuple[int, int]]:
    """Starts a process that returns each byte; yields the descriptors to it and from it."""
    process = subprocess.Popen(
        [sys.executable, "-S", "-c", _REPEATER], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    assert process.stdin is not None
    assert process.stdout is not None
    with process:
        yield process.stdin.fileno(), process.stdout.fileno()
        process.stdin.close()
