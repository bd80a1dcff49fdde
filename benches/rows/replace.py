"""The time from the kill of a worker until its replacement has returned a result."""

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from time import perf_counter

from benches.engines.base import Engine
from benches.harness import Measure
from benches.model import Goal, Recording, Settings
from benches.rows.contests import ContestRow
from benches.work import hold, pid
from gristmill_bench.executors.base import scratch


class ReplaceRow(ContestRow):
    """The time from the SIGKILL of a worker to the next result from a new process in its place.

    A sleeping task holds the other worker, so that the next result can only come from the replacement.
    ProcessPoolExecutor breaks: its user makes a new one.
    """

    key = "replace"
    title = "worker replaced after SIGKILL"
    workers = 2
    unit = "s"
    better = "lower"
    peers = ("ppe",)
    must = Goal(10e-3)
    moonshot = Goal(3e-3)

    def side(self, settings: Settings, key: str, engine: Engine, recording: Recording) -> Measure:
        return replaced(key, engine)


def replaced(key: str, engine: Engine) -> Measure:
    """Makes a side that kills one worker while the other is held."""

    def sample() -> dict[str, float]:
        with held(engine):
            victim = engine.result(engine.submit(pid))
            start = perf_counter()
            os.kill(victim, signal.SIGKILL)
            successor(engine, victim)
            return {key: perf_counter() - start}

    return sample


def successor(engine: Engine, victim: int) -> int:
    """Waits for a result from a process other than the victim."""
    while True:
        try:
            found: int = engine.result(engine.submit(pid))
        except Exception:  # every engine has its own class for a broken pool
            engine.reopen()
            continue
        if found != victim:
            return found


@contextmanager
def held(engine: Engine) -> Iterator[None]:
    """Holds one worker with a sleeping task for the time of the block."""
    with scratch() as folder:
        gate = f"{folder}/gate"
        os.mkfifo(gate)
        sleeper = engine.submit(hold, gate)
        yield
        with open(gate, "r+b", buffering=0):
            try:
                engine.result(sleeper)
            except Exception:  # the task failed with its broken pool
                return
