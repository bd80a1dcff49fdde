"""Measurements for figures: runs of the suite in turns, each in its own process."""

from __future__ import annotations

import random
import sys
import traceback
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from gristmill_bench import config, run
from gristmill_bench.config import Benchmark
from gristmill_bench.errors import BenchError
from gristmill_bench.figures.bounded import ended_within
from gristmill_bench.figures.data import Data, Place

#: The time limit of a case in runs: a case may make several runs, each with a time limit.
_RUNS_OF_A_CASE = 5.0
#: Tables of a configuration, as in a TOML file.
Tables = dict[str, dict[str, Any]]
Summary = dict[str, Any]


class Point(NamedTuple):
    """A run for one place of one series."""

    series: str
    at: Place
    tables: Tables


class Sample(NamedTuple):
    """One measured value."""

    series: str
    at: Place
    value: float


class Case(NamedTuple):
    """A measurement that is made in turns with others: it gives samples of its series, or of several series."""

    series: str
    at: Place
    measure: Callable[[], Iterable[Sample]]


class Session:
    """The folder in which figures are measured, with the number of repetitions of each run."""

    def __init__(self, folder: Path, repeats: int, timeout_s: float = 120.0) -> None:
        self.folder = folder
        self.repeats = repeats
        self._timeout_s = timeout_s

    def at_most(self, repeats: int) -> Session:
        """Returns a session with no more than ``repeats`` repetitions, for expensive runs."""
        return Session(self.folder, min(repeats, self.repeats), self._timeout_s)

    def sweep(
        self,
        data: Data,
        points: Iterable[Point],
        samples: Callable[[Summary, Point], Iterable[Sample]],
    ) -> Data:
        """Runs all points in turns and adds the samples of each run; leaves out points that are not available here."""
        return self.turns(
            data,
            [
                Case(point.series, point.at, partial(self._measured, point, samples))
                for point in self.available(data, points)
            ],
        )

    def available(self, data: Data, points: Iterable[Point]) -> list[Point]:
        """Returns the points that can be run here; notes the others as missing in the data."""
        return [point for point in points if self._is_available(data, point)]

    def turns(self, data: Data, cases: Sequence[Case]) -> Data:
        """Measures all cases, one after the other, as often as there are repetitions.

        Each turn after the first has a random order, so that the effects of one case do not always hit the same next
        one. If a case fails, or takes longer than the time of some runs, the rest of its series is left out and noted
        as missing.
        """
        for turn in range(self.repeats):
            for case in _drawn(cases, turn):
                if case.series in data.missing:
                    continue
                self._say(f"{data.figure}: {case.series} at {case.at}, {turn + 1}/{self.repeats}")
                try:
                    with ended_within(_RUNS_OF_A_CASE * self._timeout_s):
                        found = list(case.measure())
                except Exception as error:
                    # Cases raise the exceptions of their calls, which may be of any library.
                    reason = str(error) if isinstance(error, BenchError) else _told(error)
                    self._say(reason)
                    # The page is read on machines without these folders.
                    told = reason.replace(f"{self.folder.resolve()}/", "")
                    data.missing[case.series] = f"at {case.at}: {told}"
                    continue
                for sample in found:
                    data.add(*sample)
        return data

    def run(self, tables: Tables) -> Path:
        """Runs a benchmark once, in its own process; returns its folder. Raises ``BenchError`` like ``run.start``."""
        return run.start(self.benchmark(tables))

    def _measured(
        self, point: Point, samples: Callable[[Summary, Point], Iterable[Sample]]
    ) -> Iterable[Sample]:
        return samples(run.summary(self.run(point.tables)), point)

    def _is_available(self, data: Data, point: Point) -> bool:
        if point.series in data.missing:
            return False
        try:
            self.benchmark(point.tables)
        except BenchError as error:
            data.missing[point.series] = str(error)
            return False
        return True

    def benchmark(self, tables: Tables) -> Benchmark:
        """Returns the benchmark of tables, with folder and time limit; raises ``BenchError`` if it cannot run here."""
        options = {"folder": str(self.folder / "runs"), "timeout": self._timeout_s, "warmup": 50}
        return config.resolve(config.merge({"run": options}, tables))

    @staticmethod
    def _say(text: str) -> None:
        print(text, file=sys.stderr, flush=True)


def _told(error: Exception) -> str:
    """Returns an exception in one line, with its class."""
    return "".join(traceback.format_exception_only(error)).strip().replace("\n", " ")


def _drawn(cases: Sequence[Case], turn: int) -> list[Case]:
    """Returns the cases of a turn in random order, except that the first turn keeps the given order."""
    return random.Random(turn).sample(cases, len(cases)) if turn else list(cases)
