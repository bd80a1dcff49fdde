"""Compute-bound tasks on all cores: the ways to wait for them, against a pool whose chunk size was chosen by hand."""

import os
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import as_completed, wait
from typing import Any

from benches import work
from benches.engines.base import Engine
from benches.harness import alternate, seconds
from benches.model import Recording, Settings

WORKERS = len(os.sched_getaffinity(0))
PEER = "ppe"
#: Chunk sizes among which the pool's best one is chosen, in a pass of its own.
CHUNKS = (1, 4, 16, 64, 256, 1024)
#: The ways to wait.
WAYS = ("map", "submit", "as_completed", "wait")


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


def best_pool_chunk(engine: Engine, turns: Sequence[int]) -> int:
    """Finds the pool's fastest chunk size: the best of two runs for each."""

    def took(chunk: int) -> float:
        return min(seconds(lambda _: pool_map(engine, turns, chunk), 0) for _ in range(2))

    return min((chunk for chunk in CHUNKS if chunk * WORKERS <= len(turns)), key=took)


def compare(
    settings: Settings,
    sides: list[tuple[str, Engine]],
    turns: Sequence[int],
    recording: Recording,
    samples: int,
    names: Iterable[str] = WAYS,
) -> dict[str, list[float]]:
    """Measures ways to wait, and the pool with its best chunk, in turns; tasks a second."""
    (_, ours), (_, pool) = sides
    chunk = best_pool_chunk(pool, turns)
    recording.parameters["chunk"] = chunk

    def side(key: str, run: Callable[[Sequence[int]], object]) -> Callable[[], dict[str, float]]:
        run(turns)
        return lambda: {key: len(turns) / seconds(lambda _: run(turns), 0)}

    runs = ways(ours)
    measures = [side(f"ours {way}", runs[way]) for way in names]
    peer = side("peer", lambda all_turns: pool_map(pool, all_turns, chunk))
    return alternate(settings, *measures, peer, samples=samples)
