"""A curve for each series over several places: in one area, or in a panel for each engine if there are many.

``X with Y`` is a series of the engine ``X`` in the mode ``Y`` instead of its own.
"""

from __future__ import annotations

from math import ceil
from typing import Any

from gristmill_bench.figures import axes
from gristmill_bench.figures.data import Data, Place

#: One marker for each colour; line styles distinguish series that share both.
_MARKS = "osD^v<>PX*"
_STROKES = ("-", "--", ":")
#: The most curves that a reader can tell apart in one area.
_MOST = len(_MARKS)
_WITH, _OWN = " with ", "its own way"
_COLUMNS = 3
#: Sizes of a panel, and of the name of an axis, inches.
_PANEL_IN, _AXIS_IN = (3.0, 2.4), 0.6


def draw(figure: Any, data: Data) -> None:
    """Draws all series into a picture."""
    panels = _panels(data)
    if not panels:
        area = figure.subplots()
        names = data.series()
        _curves(area, data, {name: name for name in names}, names)
        axes.legend(area)
        return
    # The ways of all engines. An engine may lack some; each way looks the same in all panels.
    ways = list(dict.fromkeys(way for found in panels.values() for way in found))
    handles: dict[str, Any] = {}
    areas = figure.subplots(_rows(panels), _COLUMNS, sharex=True, sharey=True, squeeze=False)
    for index, (area, (engine, found)) in enumerate(zip(areas.flat, panels.items(), strict=False)):
        _curves(area, data, found, ways)
        handles |= dict(zip(found, area.get_legend_handles_labels()[0], strict=True))
        area.set_title(engine, fontsize="medium")
        area.label_outer()
        if index + _COLUMNS >= len(panels):
            area.tick_params(labelbottom=True)
            area.set_xlabel(data.across)
    for area in areas.flat[len(panels) :]:
        area.axis("off")
    shown = [handles[way] for way in ways]
    figure.legend(shown, ways, fontsize="small", loc="outside lower center", ncols=_COLUMNS)


def size_in(data: Data) -> tuple[float, float]:
    """Returns the minimum size of the picture, inches."""
    panels = _panels(data)
    if not panels:
        return 0.0, 0.0
    return _COLUMNS * _PANEL_IN[0], _rows(panels) * _PANEL_IN[1] + 2 * _AXIS_IN


def _panels(data: Data) -> dict[str, dict[str, str]]:
    """Returns for each engine its series, by their ways; empty if one area is enough for all, or cannot be divided."""
    panels: dict[str, dict[str, str]] = {}
    for name in data.series():
        engine, _, way = name.partition(_WITH)
        panels.setdefault(engine, {})[way or _OWN] = name
    is_one = len(data.series()) <= _MOST or len(panels) == len(data.series())
    return {} if is_one else panels


def _rows(panels: dict[str, dict[str, str]]) -> int:
    return ceil(len(panels) / _COLUMNS)


def _curves(area: Any, data: Data, labelled: dict[str, str], labels: list[str]) -> None:
    """Draws labelled series into an area with axes; the index of a label in ``labels`` decides its look."""
    places = data.places()
    is_named = any(isinstance(place, str) for place in places)
    where = {place: index for index, place in enumerate(places)}
    for label, name in labelled.items():
        found = data.of(name)
        across = [where[place] if is_named else place for place in found]
        medians = [one.value for one in found.values()]
        rounds, place = divmod(labels.index(label), len(_MARKS))
        look = {"marker": _MARKS[place], "linestyle": _STROKES[rounds % len(_STROKES)]}
        look["color"] = f"C{place}"
        area.errorbar(
            across, medians, yerr=axes.spread(found.values()), capsize=3, label=label, **look
        )
    _scale(area, data, places, is_named)
    area.set_xlabel(data.across)
    area.set_ylabel(data.upward)
    area.grid(alpha=0.3)


def _scale(area: Any, data: Data, places: list[Place], is_named: bool) -> None:
    if is_named:
        area.set_xticks(range(len(places)), [str(place) for place in places])
    elif axes.is_wide([float(place) for place in places]):
        area.set_xscale("log")
    else:
        area.set_xticks(places)
    if axes.is_wide([median.value for name in data.series() for median in data.of(name).values()]):
        area.set_yscale("log")
