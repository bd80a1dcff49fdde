"""Curves in an image file: panels side by side with logarithmic axes. Only this module needs matplotlib."""

import importlib
import importlib.util
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

_PANEL_SIZE_IN = (5.0, 3.6)


@dataclass(frozen=True)
class Panel:
    """One panel: its axis labels, and the points of each curve by the curve's name."""

    across: str
    upward: str
    curves: Mapping[str, Mapping[int, float]]


def point(name: str, step: int) -> str:
    """Returns the name of the series for one point of a curve."""
    return f"{name} {step}"


def drawn(panels: Sequence[Panel], path: Path) -> bool:
    """Draws the panels that have curves. Returns whether it wrote the file: there were curves, and matplotlib."""
    filled = [panel for panel in panels if panel.curves]
    if not filled or importlib.util.find_spec("matplotlib") is None:
        return False
    width, height = _PANEL_SIZE_IN
    figure = importlib.import_module("matplotlib.figure").Figure(
        figsize=(width * len(filled), height), layout="constrained"
    )
    axes = figure.subplots(1, len(filled), squeeze=False)[0]
    for panel, area in zip(filled, axes, strict=True):
        for name, points in panel.curves.items():
            area.loglog(list(points), list(points.values()), marker="o", label=name)
        steps = sorted({step for points in panel.curves.values() for step in points})
        area.set_xticks(steps, [str(step) for step in steps], minor=False)
        area.set_xticks([], minor=True)
        area.set_xlabel(panel.across)
        area.set_ylabel(panel.upward)
        area.legend()
    figure.savefig(path)
    return True
