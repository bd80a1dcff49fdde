"""How figures measure: runs of the suite in turns, a process each."""

from __future__ import annotations

import random
import sys
import traceback
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from gristmill.bench import config, run
from gristmill.bench.config import Benchmark
from gristmill.bench.errors import BenchError
from gristmill.bench.figures.bounded import ended_within
from gristmill.bench.figures.data import Data, Place

#: A case may make several runs, each of which ends in its time: it has that of so many.
_RUNS_OF_A_CASE = 5.0
#: Tables of a configuration, as those of a file of TOML.
Tables = dict[str, dict[str, Any]]
Summary = dict[str, Any]


class Point(NamedTuple):
    """What is run for one place of one series."""

    series: str
    at: Place
    tables: Tables


class Sample(NamedTuple):
    """One value that was measured."""

    series: str
    at: Place
    value: float


class Case(NamedTuple):
    """Something that is measured in turns with others: it gives samples, of its series or of several."""

    series: str
    at: Place
    measure: Callable[[], Iterable[Sample]]


class Session:
    """Where figures are measured, and how often each run is repeated."""

    def __init__(self, folder: Path, repeats: int, timeout_s: float = 120.0) -> None:
        self.folder = folder
        self.repeats = repeats
        self._timeout_s = timeout_s

    def at_most(self, repeats: int) -> Session:
        """Itself for what is dear to repeat: with no more repetitions than these."""
        return Session(self.folder, min(repeats, self.repeats), self._timeout_s)

    def sweep(
        self,
        data: Data,
        points: Iterable[Point],
        samples: Callable[[Summary, Point], Iterable[Sample]],
    ) -> Data:
        """Runs all points in turns, and adds what samples each run gives. What is not available here is left out."""
        return self.turns(
            data,
            [
                Case(point.series, point.at, partial(self._measured, point, samples))
                for point in self.available(data, points)
            ],
        )

    def available(self, data: Data, points: Iterable[Point]) -> list[Point]:
        """Those that can be run here; the data is told of the others."""
        return [point for point in points if self._is_available(data, point)]

    def turns(self, data: Data, cases: Sequence[Case]) -> Data:
        """Measures all cases, one after the other, and that as often as there are repetitions.

        Each turn has another order, which is drawn: what a case leaves behind does not always hit the same one. The
        rest of a series of which one fails, or does not end in the time of some runs, is left out: that is noted.
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
                    # Cases raise what their calls do, which may be of any library.
                    reason = str(error) if isinstance(error, BenchError) else _told(error)
                    self._say(reason)
                    # The page is read where these folders are not.
                    told = reason.replace(f"{self.folder.resolve()}/", "")
                    data.missing[case.series] = f"at {case.at}: {told}"
                    continue
                for sample in found:
                    data.add(*sample)
        return data

    def run(self, tables: Tables) -> Path:
        """Runs a benchmark once, in a process of its own; gives its folder. ``BenchError``: as of ``run.start``."""
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
        """What tables describe, with a folder and a time. ``BenchError``: they cannot be run here."""
        options = {"folder": str(self.folder / "runs"), "timeout": self._timeout_s, "warmup": 50}
        return config.resolve(config.merge({"run": options}, tables))

    @staticmethod
    def _say(text: str) -> None:
        print(text, file=sys.stderr, flush=True)


def _told(error: Exception) -> str:
    """An exception in one line, with its class."""
    return "".join(traceback.format_exception_only(error)).strip().replace("\n", " ")


def _drawn(cases: Sequence[Case], turn: int) -> list[Case]:
    """The order of a turn: the first has that of the cases, so that series and places come as they are written."""
    return random.Random(turn).sample(cases, len(cases)) if turn else list(cases)
