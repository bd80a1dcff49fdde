"""Figures as pictures: medians with their confidence intervals, drawn by matplotlib.

``lines``: a curve for each series, or bars side by side if there is one place; panels if there are many curves.
``bars``: the bars of all series side by side at each place. ``shares``: a bar for each place, divided among the series.
``graphs``: graphs of tasks. ``diagram``: the path of a task through components, a column for each series, with its
places in order: ``component: step`` is a line of a box, any other place an arrow to the next box. ``histogram``: the
distribution of the samples of each series at the first place. ``table``: no picture.
"""

from __future__ import annotations

import importlib
import importlib.util
from pathlib import Path
from typing import Any, Literal

from gristmill_bench.errors import BenchError
from gristmill_bench.figures import axes, curves, diagrams, pictures, shapes
from gristmill_bench.figures.data import Data, Place

Form = Literal["lines", "bars", "shares", "graphs", "diagram", "histogram", "table"]

_SIZE_IN = (7.0, 4.0)
#: Heights in inches: of a bar with its name; of a line of text, or of a place with many bars side by side.
_BAR_IN, _LINE_IN = 0.22, 0.24
#: Number of classes of a histogram.
_CLASSES = 30


def draw(data: Data, title: str, path: Path, form: Form = "lines") -> None:
    """Writes a figure as SVG, in a form that has a picture.

    Raises ``BenchError`` if matplotlib is not installed, or if there is nothing to show.
    """
    if importlib.util.find_spec("matplotlib") is None:
        raise BenchError("figures are drawn with matplotlib: pip install matplotlib")
    if not data.cells:
        raise BenchError(f"{data.figure}: nothing of it could be measured: {data.missing}")
    matplotlib = importlib.import_module("matplotlib")
    # The fixed salt makes the same measurements give the same file.
    with matplotlib.rc_context({"svg.hashsalt": data.figure, "svg.fonttype": "none"}):
        figure = importlib.import_module("matplotlib.figure").Figure(
            figsize=_size_in(data, form), layout="constrained"
        )
        if form == "graphs":
            shapes.draw(figure, data.graphs)
        elif form == "diagram":
            diagrams.draw(figure.subplots(), data)
        elif form == "lines" and len(data.places()) > 1:
            curves.draw(figure, data)
        else:
            _draw(figure.subplots(), data, form)
        figure.suptitle(title, fontsize="large")
        pictures.save(figure, path)


def _size_in(data: Data, form: Form) -> tuple[float, float]:
    """Returns the size of the picture, inches."""
    width = 0.0
    match form:
        case "graphs":
            return shapes.size_in(data.graphs)
        case "shares":
            height = 1 + len(data.places()) * _BAR_IN
        case "diagram":
            height = diagrams.line_count(data) * _LINE_IN
        case "bars":
            height = len(data.places()) * _LINE_IN
        case "lines" if len(data.places()) > 1:
            width, height = curves.size_in(data)
        case _:
            height = 0
    return max(_SIZE_IN[0], width), max(_SIZE_IN[1], height)


def _draw(area: Any, data: Data, form: Form) -> None:
    """Draws a figure into an area with axes."""
    places = data.places()
    if form == "shares":
        _shares(area, data, places)
    elif form == "histogram":
        _histogram(area, data, places[0])
    elif form == "bars" and len(places) > 1:
        _groups(area, data, places)
    else:
        _bars(area, data, places[0])
    area.grid(alpha=0.3)


def _bars(area: Any, data: Data, place: Place) -> None:
    """Draws the series of one place side by side."""
    found = {name: data.of(name)[place] for name in data.series()}
    medians = [one.value for one in found.values()]
    area.barh(list(found), medians, xerr=axes.spread(found.values()), capsize=3)
    area.invert_yaxis()
    area.set_xlabel(data.upward)
    if axes.is_wide(medians):
        area.set_xscale("log")


def _groups(area: Any, data: Data, places: list[Place]) -> None:
    """Draws the bars of all series side by side at each place."""
    names = data.series()
    height = 0.8 / len(names)
    for index, name in enumerate(names):
        found = data.of(name)
        where = [places.index(place) + (index + 0.5) * height - 0.4 for place in found]
        area.barh(where, [one.value for one in found.values()], height, label=name)
    area.set_yticks(range(len(places)), [str(place) for place in places])
    area.invert_yaxis()
    area.set_xlabel(data.upward)
    values = [median.value for name in names for median in data.of(name).values()]
    # A value of zero has no bar on either axis.
    if axes.is_wide([value for value in values if value > 0] or [0.0]):
        area.set_xscale("log")
    axes.legend(area)


def _shares(area: Any, data: Data, places: list[Place]) -> None:
    """Draws a bar for each place, divided among the series."""
    ends = dict.fromkeys(places, 0.0)
    for name in data.series():
        found = data.of(name)
        parts = [found[place].value if place in found else 0.0 for place in places]
        area.barh([str(one) for one in places], parts, left=list(ends.values()), label=name)
        ends = {place: ends[place] + part for place, part in zip(places, parts, strict=True)}
    area.invert_yaxis()
    area.set_xlabel(data.upward)
    axes.legend(area)


def _histogram(area: Any, data: Data, place: Place) -> None:
    """Draws the distribution of the samples at a place."""
    found = {cell.series: cell.samples for cell in data.cells if cell.at == place}
    values = [sample for samples in found.values() for sample in samples]
    least, most = min(values), max(values)
    if axes.is_wide(values):
        area.set_xscale("log")
        edges = [least * (most / least) ** (at / _CLASSES) for at in range(_CLASSES + 1)]
    else:
        edges = [least + (most - least) * at / _CLASSES for at in range(_CLASSES + 1)]
    # The computed last edge may be slightly less than the largest sample.
    edges[-1] = most
    for name, samples in found.items():
        area.hist(samples, edges, histtype="stepfilled", alpha=0.6, label=name)
    area.set_xlabel(data.upward)
    area.set_ylabel(str(place))
    axes.legend(area)
