"""Figures as pictures: medians with their confidence intervals, by matplotlib."""

from __future__ import annotations

import importlib
import importlib.util
from pathlib import Path
from typing import Any

from gristmill.bench.errors import BenchError
from gristmill.bench.figures.data import Data, Place

_SIZE_IN = (7.0, 4.0)
#: So many times between the least and the most, and an axis is logarithmic.
_WIDE = 20.0
_MARKS = "osD^v<>PX*"


def draw(data: Data, title: str, path: Path) -> None:
    """Writes it as SVG; ``BenchError``: matplotlib is not installed, or there is nothing to show."""
    if importlib.util.find_spec("matplotlib") is None:
        raise BenchError("figures are drawn with matplotlib: pip install matplotlib")
    if not data.cells:
        raise BenchError(f"{data.figure}: nothing of it could be measured: {data.missing}")
    matplotlib = importlib.import_module("matplotlib")
    # The same measurements give the same file.
    with matplotlib.rc_context({"svg.hashsalt": data.figure, "svg.fonttype": "none"}):
        figure = importlib.import_module("matplotlib.figure").Figure(
            figsize=_SIZE_IN, layout="constrained"
        )
        area = figure.subplots()
        places = data.places()
        if len(places) == 1:
            _bars(area, data, places[0])
        else:
            _lines(area, data, places)
        area.set_title(title)
        area.grid(alpha=0.3)
        figure.savefig(path, format="svg", metadata={"Date": None})


def _bars(area: Any, data: Data, place: Place) -> None:
    """One place: the series side by side."""
    found = {name: data.of(name)[place] for name in data.series()}
    medians = [one.value for one in found.values()]
    spread = [
        [one.value - one.low for one in found.values()],
        [one.high - one.value for one in found.values()],
    ]
    area.barh(list(found), medians, xerr=spread, capsize=3)
    area.invert_yaxis()
    area.set_xlabel(data.upward)
    if min(medians) > 0 and max(medians) > _WIDE * min(medians):
        area.set_xscale("log")


def _lines(area: Any, data: Data, places: list[Place]) -> None:
    """Several places: a curve for each series."""
    is_named = any(isinstance(place, str) for place in places)
    where = {place: index for index, place in enumerate(places)}
    for index, name in enumerate(data.series()):
        found = data.of(name)
        across = [where[place] if is_named else place for place in found]
        spread = [
            [one.value - one.low for one in found.values()],
            [one.high - one.value for one in found.values()],
        ]
        medians = [one.value for one in found.values()]
        mark = _MARKS[index % len(_MARKS)]
        area.errorbar(across, medians, yerr=spread, marker=mark, capsize=3, label=name)
    if is_named:
        area.set_xticks(range(len(places)), [str(place) for place in places])
    elif _is_wide([float(place) for place in places]):
        area.set_xscale("log")
    else:
        area.set_xticks(places)
    if _is_wide([median.value for name in data.series() for median in data.of(name).values()]):
        area.set_yscale("log")
    area.set_xlabel(data.across)
    area.set_ylabel(data.upward)
    area.legend(fontsize="small", loc="center left", bbox_to_anchor=(1.0, 0.5))


def _is_wide(values: list[float]) -> bool:
    return min(values) > 0 and max(values) > _WIDE * min(values)
