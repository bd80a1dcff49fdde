"""The measurements of a figure: samples by series and place on its axis, with the facts that a reader needs."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import msgspec

from gristmill_bench.errors import BenchError
from gristmill_bench.figures.graphs import Graph
from gristmill_bench.statistics import Median, median_of

#: A place on an axis: a number, or the name of one of several things side by side.
Place = float | str
#: The beginning of each part of the data that gets a line. Strings cannot contain it, because their quotes are escaped.
_BEFORE_LINES = re.compile(rb'(\{"series":|"graphs":|"missing":|"environment":)')


class Cell(msgspec.Struct):
    """The samples of a series at one place."""

    series: str
    at: Place
    samples: list[float]


class Data(msgspec.Struct):
    """The measurements of a figure."""

    figure: str
    #: The labels of the axes, with units.
    across: str
    upward: str
    cells: list[Cell] = []
    #: Recorded graphs of tasks, by name.
    graphs: dict[str, Graph] = {}
    #: The series that could not be measured here, with the reasons.
    missing: dict[str, str] = {}
    #: The day, machine, versions and command: see ``gristmill_bench.environment``.
    environment: dict[str, Any] = {}

    def add(self, series: str, at: Place, *samples: float) -> None:
        """Adds samples of a series at a place."""
        for cell in self.cells:
            if (cell.series, cell.at) == (series, at):
                cell.samples.extend(samples)
                return
        self.cells.append(Cell(series, at, list(samples)))

    def series(self) -> list[str]:
        """Returns the names of all series, in the order in which they were added."""
        return list(dict.fromkeys(cell.series for cell in self.cells))

    def places(self) -> list[Place]:
        """Returns all places on the axis: sorted numbers, then names in the order in which they were added."""
        found = list(dict.fromkeys(cell.at for cell in self.cells))
        numbers = sorted(one for one in found if not isinstance(one, str))
        return [*numbers, *(one for one in found if isinstance(one, str))]

    def of(self, series: str) -> dict[Place, Median]:
        """Returns the medians of a series by place; raises ``LookupError`` if the series was not measured."""
        found = {one.at: median_of(one.samples) for one in self.cells if one.series == series}
        if not found:
            raise LookupError(f"{series} was not measured: {self.missing.get(series, 'no run')}")
        return {at: found[at] for at in self.places() if at in found}

    def at(self, series: str, place: Place) -> float:
        """Returns the median of a series at a place; raises ``LookupError`` if it was not measured."""
        found = self.of(series)
        if place not in found:
            raise LookupError(f"{series} at {place} was not measured")
        return found[place].value

    def write(self, path: Path) -> None:
        """Writes the data as JSON: a line for each series at each place, and samples with six significant digits."""
        cells = [
            Cell(one.series, one.at, [float(f"{sample:.6g}") for sample in one.samples])
            for one in self.cells
        ]
        encoded = msgspec.json.encode(msgspec.structs.replace(self, cells=cells))
        path.write_bytes(_BEFORE_LINES.sub(rb"\n\1", encoded) + b"\n")


def read(path: Path) -> Data:
    """Returns the measurements in a file; raises ``BenchError`` if it has none."""
    try:
        return msgspec.json.decode(path.read_bytes(), type=Data)
    except (OSError, msgspec.MsgspecError) as error:
        raise BenchError(f"{path} has no measurements: {error}") from error
