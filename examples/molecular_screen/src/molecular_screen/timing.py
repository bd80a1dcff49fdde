"""Times of the same screen on each engine, side by side in one run, with a check that all scores agree.

Every engine scores the same list of molecules. Pools are started and warm before the clock runs. Rounds alternate
serial, A, B, C, serial, A, B, C, so that noise of the machine affects all of them alike.
"""

import statistics
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Executor, ProcessPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass, field
from functools import partial
from multiprocessing import get_context

from molecular_screen.score import Model, Score, load, score

ROUND_COUNT = 3
CHUNK_SIZES = (8, 32, 128, 512)
WARM_UP_COUNT = 256

OpenExecutor = Callable[[int, Model], Executor]
Scores = list[Score | str]


class ScoreMismatchError(Exception):
    """An error for an engine with other scores than the serial run: one of the two is wrong."""

    def __init__(self, engine: str, index: int) -> None:
        super().__init__(f"{engine} gives another score than the serial run for molecule {index}")


@dataclass
class Timing:
    """The times of one engine over the sample, one a round, in seconds."""

    engine: str
    molecule_count: int
    seconds: list[float] = field(default_factory=list)

    @property
    def median_s(self) -> float:
        """The median of the rounds."""
        return statistics.median(self.seconds)

    @property
    def rate(self) -> float:
        """Molecules, and so tasks, a second in the median round."""
        return self.molecule_count / self.median_s

    @property
    def rate_range(self) -> tuple[float, float]:
        """Molecules a second in the slowest and in the fastest round."""
        return self.molecule_count / max(self.seconds), self.molecule_count / min(self.seconds)


def open_executor(workers: int, model: Model) -> Executor:
    """Opens our engine with the model loaded in its workers."""
    import gristmill

    executor: Executor = gristmill.Executor(
        max_workers=workers, initializer=load, initargs=(model,)
    )
    return executor


def open_process_pool(workers: int, model: Model) -> Executor:
    """Opens the standard library's pool, spawned because forking a program with threads is unsafe.

    The start method does not affect the times: they are taken after the start.
    """
    return ProcessPoolExecutor(
        workers,
        get_context("spawn"),
        initializer=load,
        initargs=(model,),
    )


def compare(sample: list[str], workers: int, model: Model, ours: OpenExecutor) -> list[Timing]:
    """Times the sample serially, on ProcessPoolExecutor (chunk 1, best chunk) and on ours.

    # Errors

    `ScoreMismatchError` when an engine's scores are not exactly those of the serial run.
    """
    with ExitStack() as stack:
        pool = stack.enter_context(open_process_pool(workers, model))
        engine = stack.enter_context(ours(workers, model))
        load(model)
        warm = sample[:WARM_UP_COUNT]
        for executor in (pool, engine):
            list(executor.map(score, warm))
        chunk = best_chunk(pool, sample)
        ways: list[tuple[str, Callable[[], Iterator[Score | str]]]] = [
            ("serial, one process", lambda: map(score, sample)),
            ("ProcessPoolExecutor, chunk 1", lambda: pool.map(score, sample)),
            (
                f"ProcessPoolExecutor, best chunk ({chunk})",
                lambda: pool.map(score, sample, chunksize=chunk),
            ),
            (_public_name(engine), lambda: engine.map(score, sample)),
        ]
        return _rounds(sample, ways)


def _rounds(
    sample: list[str], ways: list[tuple[str, Callable[[], Iterator[Score | str]]]]
) -> list[Timing]:
    timings = [Timing(name, len(sample)) for name, _ in ways]
    expected: Scores | None = None
    for _ in range(ROUND_COUNT):
        for timing, (name, run) in zip(timings, ways, strict=True):
            seconds, scores = timed(run)
            timing.seconds.append(seconds)
            expected = scores if expected is None else expected
            check_same(name, expected, scores)
    return timings


def _public_name(engine: Executor) -> str:
    """Returns the name of the engine that really ran, by its package and class."""
    return f"{type(engine).__module__.partition('.')[0]}.{type(engine).__name__}"


def best_chunk(pool: Executor, sample: list[str]) -> int:
    """Finds the chunk size with which the pool is fastest on this sample."""
    taken: dict[int, float] = {}
    for chunk in CHUNK_SIZES:
        taken[chunk], _ = timed(partial(pool.map, score, sample, chunksize=chunk))
    return min(taken, key=taken.__getitem__)


def timed(run: Callable[[], Iterator[Score | str]]) -> tuple[float, Scores]:
    """Runs a screen to its last result. Returns the seconds and the scores."""
    start = time.perf_counter()
    scores = list(run())
    return time.perf_counter() - start, scores


def check_same(engine: str, expected: Scores, scores: Scores) -> None:
    """Compares scores exactly, bit by bit.

    # Errors
    `ScoreMismatchError` with the first molecule whose score differs.
    """
    if expected != scores:
        pairs = zip(expected, scores, strict=True)
        raise ScoreMismatchError(engine, next(i for i, (a, b) in enumerate(pairs) if a != b))
