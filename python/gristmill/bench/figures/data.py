"""What was measured for a figure: samples, by series and place on its axis, with what a reader needs to judge them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec

from gristmill.bench.errors import BenchError
from gristmill.bench.figures.graphs import Graph
from gristmill.bench.statistics import Median, median_of

#: Places on an axis: numbers, or names of things that are put side by side.
Place = float | str


class Cell(msgspec.Struct):
    """The samples of a series at one place."""

    series: str
    at: Place
    samples: list[float]


class Data(msgspec.Struct):
    """A figure's measurements."""

    figure: str
    #: What the axes have, with units.
    across: str
    upward: str
    cells: list[Cell] = []
    #: Graphs of tasks that were seen, by name.
    graphs: dict[str, Graph] = {}
    #: What could not be measured here, and why.
    missing: dict[str, str] = {}
    #: The day, machine, versions and command: see ``gristmill.bench.environment``.
    environment: dict[str, Any] = {}

    def add(self, series: str, at: Place, *samples: float) -> None:
        """Adds samples of a series at a place."""
        for cell in self.cells:
            if (cell.series, cell.at) == (series, at):
                cell.samples.extend(samples)
                return
        self.cells.append(Cell(series, at, list(samples)))

    def series(self) -> list[str]:
        """The names of all series, in the order in which they came."""
        return list(dict.fromkeys(cell.series for cell in self.cells))

    def places(self) -> list[Place]:
        """All places on the axis: numbers in order, names as they came."""
        found = list(dict.fromkeys(cell.at for cell in self.cells))
        numbers = sorted(one for one in found if not isinstance(one, str))
        return [*numbers, *(one for one in found if isinstance(one, str))]

    def of(self, series: str) -> dict[Place, Median]:
        """The medians of a series by place; ``LookupError``: nothing of it was measured."""
        found = {one.at: median_of(one.samples) for one in self.cells if one.series == series}
        if not found:
            raise LookupError(f"{series} was not measured: {self.missing.get(series, 'no run')}")
        return {at: found[at] for at in self.places() if at in found}

    def at(self, series: str, place: Place) -> float:
        """The median of a series at a place."""
        found = self.of(series)
        if place not in found:
            raise LookupError(f"{series} at {place} was not measured")
        return found[place].value

    def write(self, path: Path) -> None:
        """Writes it as JSON."""
        encoded = msgspec.json.format(msgspec.json.encode(self), indent=1)
        path.write_bytes(encoded + b"\n")


def read(path: Path) -> Data:
    """What was measured, from a file."""
    try:
        return msgspec.json.decode(path.read_bytes(), type=Data)
    except (OSError, msgspec.MsgspecError) as error:
        raise BenchError(f"{path} has no measurements: {error}") from error
