"""Pictures of graphs of tasks, side by side: levels from top to bottom, a colour for each function."""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from typing import Any

from gristmill_bench.figures.graphs import Graph

_COLUMNS = 4
#: Size of one graph, inches.
_SIZE_IN = (2.2, 2.2)
#: Colours of matplotlib that stand for functions, in the order in which the functions appear.
_COLOURS = [f"C{number}" for number in range(10)]


def size_in(graphs: Mapping[str, Graph]) -> tuple[float, float]:
    """Returns the size of the picture, inches."""
    columns, rows = _grid(len(graphs))
    return columns * _SIZE_IN[0], rows * _SIZE_IN[1]


def draw(figure: Any, graphs: Mapping[str, Graph]) -> None:
    """Draws each graph into an area of a matplotlib figure."""
    columns, rows = _grid(len(graphs))
    areas = list(figure.subplots(rows, columns, squeeze=False).flat)
    for area in areas:
        area.set_axis_off()
    for area, (name, graph) in zip(areas, graphs.items(), strict=False):
        area.set_title(f"{name}: {_counted(graph)}", fontsize=9)
        _draw(area, graph)


def _counted(graph: Graph) -> str:
    count = len(graph.functions)
    return f"{count} task{'s' if count != 1 else ''}"


def _grid(count: int) -> tuple[int, int]:
    columns = max(1, min(count, _COLUMNS))
    return columns, -(-count // columns)


def _draw(area: Any, graph: Graph) -> None:
    places = positions(graph)
    lines = importlib.import_module("matplotlib.collections").LineCollection
    ways = [(places[parent], places[child]) for parent, child in graph.edges]
    area.add_collection(lines(ways, colors="0.7", linewidths=0.5, zorder=1))
    size = min(30.0, 1_500 / max(1, len(places)))
    for colour, function in zip(_COLOURS * 9, dict.fromkeys(graph.functions), strict=False):
        mine = [at for at, one in zip(places, graph.functions, strict=True) if one == function]
        across, down = zip(*mine, strict=True)
        area.scatter(across, down, s=size, color=colour, label=function, zorder=2)
    area.set_xlim(-0.05, 1.05)
    area.set_ylim(-graph.depth + 0.5, 0.5)
    area.legend(
        fontsize=6,
        frameon=False,
        loc="upper center",
        bbox_to_anchor=(0.5, 0.0),
        ncols=2,
        markerscale=0.8,
    )


def positions(graph: Graph) -> list[tuple[float, float]]:
    """Returns the position of each task: from 0 to 1 across, and one unit down for each level.

    A task is below the middle of its parents if possible.
    """
    levels = graph.levels()
    parents: list[list[int]] = [[] for _ in levels]
    for parent, child in graph.edges:
        parents[child].append(parent)
    across = [0.5] * len(levels)
    for level in range(graph.depth):
        members = [task for task, one in enumerate(levels) if one == level]
        middle = {
            task: sum(across[one] for one in parents[task]) / len(parents[task])
            if parents[task]
            else 0.0
            for task in members
        }
        members.sort(key=middle.__getitem__)
        for place, task in enumerate(members):
            across[task] = (place + 0.5) / len(members)
    return [(where, -float(level)) for where, level in zip(across, levels, strict=True)]
