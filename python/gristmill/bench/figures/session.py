"""How figures measure: runs of the suite in turns, a process each."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, NamedTuple

from gristmill.bench import config, run
from gristmill.bench.config import Benchmark
from gristmill.bench.errors import BenchError
from gristmill.bench.figures.data import Data, Place

#: Tables of a configuration, as those of a file of TOML.
Tables = dict[str, dict[str, Any]]
Summary = dict[str, Any]


class Point(NamedTuple):
    """What is run for one place of one series."""

    series: str
    at: Place
    tables: Tables


class Session:
    """Where figures are measured, and how often each run is repeated."""

    def __init__(self, folder: Path, repeats: int, timeout_s: float = 120.0) -> None:
        self.folder = folder
        self.repeats = repeats
        self._timeout_s = timeout_s

    def sweep(self, data: Data, points: Iterable[Point], value: Callable[[Summary], float]) -> Data:
        """Runs all points, one after the other, and that as often as there are repetitions.

        What is not available here is left out, and so is the rest of a series of which a run fails: both are noted.
        """
        ready = [point for point in points if self._is_available(data, point)]
        for turn in range(self.repeats):
            for point in ready:
                if point.series in data.missing:
                    continue
                self._say(f"{data.figure}: {point.series} at {point.at}, {turn + 1}/{self.repeats}")
                try:
                    found = run.summary(run.start(self._benchmark(point.tables)))
                except BenchError as error:
                    data.missing[point.series] = f"at {point.at}: {error}"
                    self._say(str(error))
                    continue
                data.add(point.series, point.at, value(found))
        return data

    def _is_available(self, data: Data, point: Point) -> bool:
        if point.series in data.missing:
            return False
        try:
            self._benchmark(point.tables)
        except BenchError as error:
            data.missing[point.series] = str(error)
            return False
        return True

    def _benchmark(self, tables: Tables) -> Benchmark:
        options = {"folder": str(self.folder / "runs"), "timeout": self._timeout_s, "warmup": 50}
        return config.resolve(config.merge({"run": options}, tables))

    @staticmethod
    def _say(text: str) -> None:
        print(text, file=sys.stderr, flush=True)
