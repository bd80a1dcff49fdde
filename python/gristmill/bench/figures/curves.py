"""A curve for each series over several places: in one area, or in a panel for each engine if there are many.

``X with Y`` is a series of the engine ``X`` in another way than its own.
"""

from __future__ import annotations

from math import ceil
from typing import Any

from gristmill.bench.figures.data import Data, Place

#: As many as there are colours; lines tell series apart that are so far from each other.
_MARKS = "osD^v<>PX*"
_STROKES = ("-", "--", ":")
#: More curves than these are told apart by nobody.
_MOST = len(_MARKS)
_WITH, _OWN = " with ", "its own way"
_COLUMNS = 3
#: Of a panel, and of the name of what is on an axis, inches.
_PANEL_IN, _AXIS_IN = (3.0, 2.4), 0.6
#: So many times between the least and the most, and an axis is logarithmic.
_WIDE = 20.0


def draw(figure: Any, data: Data) -> None:
    """Draws all series into a picture."""
    panels = _panels(data)
    if not panels:
        area = figure.subplots()
        _curves(area, data, {name: name for name in data.series()})
        legend(area)
        return
    areas = figure.subplots(_rows(panels), _COLUMNS, sharex=True, sharey=True, squeeze=False)
    for index, (area, (engine, names)) in enumerate(zip(areas.flat, panels.items(), strict=False)):
        _curves(area, data, names)
        area.set_title(engine, fontsize="medium")
        area.label_outer()
        if index + _COLUMNS >= len(panels):
            area.tick_params(labelbottom=True)
            area.set_xlabel(data.across)
    for area in areas.flat[len(panels) :]:
        area.axis("off")
    handles, labels = areas.flat[0].get_legend_handles_labels()
    figure.legend(handles, labels, fontsize="small", loc="outside lower center", ncols=_COLUMNS)


def size_in(data: Data) -> tuple[float, float]:
    """The least of the picture, inches."""
    panels = _panels(data)
    if not panels:
        return 0.0, 0.0
    return _COLUMNS * _PANEL_IN[0], _rows(panels) * _PANEL_IN[1] + 2 * _AXIS_IN


def is_wide(values: list[float]) -> bool:
    """Whether an axis is to be logarithmic."""
    return min(values) > 0 and max(values) > _WIDE * min(values)


def legend(area: Any) -> None:
    """Says beside an area which series is which."""
    area.legend(fontsize="small", loc="center left", bbox_to_anchor=(1.0, 0.5))


def _panels(data: Data) -> dict[str, dict[str, str]]:
    """For each engine its series, by their ways; empty if one area is enough for all, or cannot be divided."""
    panels: dict[str, dict[str, str]] = {}
    for name in data.series():
        engine, _, way = name.partition(_WITH)
        panels.setdefault(engine, {})[way or _OWN] = name
    is_one = len(data.series()) <= _MOST or len(panels) == len(data.series())
    return {} if is_one else panels


def _rows(panels: dict[str, dict[str, str]]) -> int:
    return ceil(len(panels) / _COLUMNS)


def _curves(area: Any, data: Data, labelled: dict[str, str]) -> None:
    """Draws series, by what they are called, into an area with axes."""
    places = data.places()
    is_named = any(isinstance(place, str) for place in places)
    where = {place: index for index, place in enumerate(places)}
    for index, (label, name) in enumerate(labelled.items()):
        found = data.of(name)
        across = [where[place] if is_named else place for place in found]
        spread = [
            [one.value - one.low for one in found.values()],
            [one.high - one.value for one in found.values()],
        ]
        medians = [one.value for one in found.values()]
        rounds, place = divmod(index, len(_MARKS))
        look = {"marker": _MARKS[place], "linestyle": _STROKES[rounds % len(_STROKES)]}
        area.errorbar(across, medians, yerr=spread, capsize=3, label=label, **look)
    _scale(area, data, places, is_named)
    area.set_xlabel(data.across)
    area.set_ylabel(data.upward)
    area.grid(alpha=0.3)


def _scale(area: Any, data: Data, places: list[Place], is_named: bool) -> None:
    if is_named:
        area.set_xticks(range(len(places)), [str(place) for place in places])
    elif is_wide([float(place) for place in places]):
        area.set_xscale("log")
    else:
        area.set_xticks(places)
    if is_wide([median.value for name in data.series() for median in data.of(name).values()]):
        area.set_yscale("log")
