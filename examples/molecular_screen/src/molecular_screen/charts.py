"""The report's charts and molecules as inline SVG that takes its colours from the page.

Drawings contain no colour: strokes and fills are CSS variables, so that one drawing suits a light and a dark page. They
contain no `xmlns` either: inline SVG needs none, and the page contains no address.
"""

import re
from html import escape
from typing import Any

import numpy as np
from numpy.typing import NDArray
from rdkit import Chem
from rdkit.Chem.Draw import rdMolDraw2D

WIDTH, HEIGHT = 460, 260
LEFT, RIGHT, TOP, BOTTOM = 52, 12, 10, 44

_HEADER = re.compile(r"<\?xml.*?\?>|<!--.*?-->|<!DOCTYPE.*?>|<rect.*?</rect>", re.DOTALL)
_NAMESPACE = re.compile(r"\s(?:xmlns(?::\w+)?|xml:space|version|baseProfile)='[^']*'")
_COLOUR = re.compile(r"#[0-9A-Fa-f]{6}")
_ATOM_COLOURS = {
    "#000000": "var(--ink)",
    "#0000FF": "var(--nitrogen)",
    "#FF0000": "var(--oxygen)",
    "#CCCC00": "var(--sulfur)",
    "#00CC00": "var(--chlorine)",
    "#33CCCC": "var(--fluorine)",
    "#7F4C19": "var(--bromine)",
    "#7F3F00": "var(--bromine)",
    "#FF7F00": "var(--phosphorus)",
}


def drawing(smiles: str, width: int = 240, height: int = 112) -> str:
    """Draws a molecule. An unknown atom colour becomes the colour of the text."""
    drawer = rdMolDraw2D.MolDraw2DSVG(width, height)
    options: Any = drawer.drawOptions()
    options.clearBackground = False
    options.bondLineWidth = 1.3
    options.padding = 0.04
    options.fixedBondLength = 20
    options.minFontSize = 9
    options.maxFontSize = 11
    rdMolDraw2D.PrepareAndDrawMolecule(drawer, Chem.MolFromSmiles(smiles))
    drawer.FinishDrawing()
    bare = _NAMESPACE.sub("", _HEADER.sub("", drawer.GetDrawingText())).strip()
    coloured = _COLOUR.sub(lambda m: _ATOM_COLOURS.get(m[0].upper(), "var(--ink)"), bare)
    return coloured.replace("<svg", f"<svg role='img' aria-label='{escape(smiles)}'", 1)


def _ticks(low: float, high: float) -> list[float]:
    """Returns about six round numbers between two values."""
    rough = (high - low) / 6 or 1.0
    power = 10.0 ** np.floor(np.log10(rough))
    step = power * min((1, 2, 5, 10), key=lambda factor: abs(factor * power - rough))
    numbers = np.arange(np.ceil(low / step), np.floor(high / step) + 1)
    return [float(number * step) for number in numbers]


class Frame:
    """The axes of a chart: map values to positions on the page, and draw ticks, grid and titles."""

    def __init__(self, x: tuple[float, float], y: tuple[float, float]) -> None:
        self._x, self._y = x, y

    def across(self, value: float) -> float:
        """Returns the position of a value on the horizontal axis."""
        share = (value - self._x[0]) / (self._x[1] - self._x[0])
        return LEFT + share * (WIDTH - LEFT - RIGHT)

    def up(self, value: float) -> float:
        """Returns the position of a value on the vertical axis."""
        share = (value - self._y[0]) / (self._y[1] - self._y[0])
        return HEIGHT - BOTTOM - share * (HEIGHT - TOP - BOTTOM)

    def svg(self, body: str, label: str, x_title: str, y_title: str) -> str:
        """Completes a chart with grid and numbers around `body`."""
        lines = []
        for tick in _ticks(*self._y):
            y = self.up(tick)
            lines.append(f"<path class='grid' d='M{LEFT} {y:.1f}H{WIDTH - RIGHT}'/>")
            lines.append(f"<text x='{LEFT - 8}' y='{y + 4:.1f}' class='end'>{_number(tick)}</text>")
        for tick in _ticks(*self._x):
            x = self.across(tick)
            lines.append(
                f"<text x='{x:.1f}' y='{HEIGHT - BOTTOM + 17}' class='mid'>{_number(tick)}</text>"
            )
        middle = (TOP + HEIGHT - BOTTOM) / 2
        return (
            f"<svg viewBox='0 0 {WIDTH} {HEIGHT}' role='img' aria-label='{escape(label)}'>"
            f"{''.join(lines)}{body}"
            f"<path class='axis' d='M{LEFT} {HEIGHT - BOTTOM}H{WIDTH - RIGHT}'/>"
            f"<text x='{(LEFT + WIDTH - RIGHT) / 2}' y='{HEIGHT - 6}' class='mid'>{escape(x_title)}"
            f"</text><text transform='translate(12 {middle}) rotate(-90)' class='mid'>"
            f"{escape(y_title)}</text></svg>"
        )


def _number(value: float) -> str:
    """Formats a tick with a true minus sign and separated thousands."""
    return f"{value:,.10g}".replace("-", "\N{MINUS SIGN}")


def histogram(values: NDArray[np.float64], x_title: str, bin_width: float = 0.25) -> str:
    """Draws the number of molecules for each score."""
    low = np.floor(np.min(values, initial=-1.0) / bin_width) * bin_width
    high = np.ceil(np.max(values, initial=1.0) / bin_width) * bin_width
    edges = np.arange(low, high + bin_width * 1.5, bin_width)
    amounts, _ = np.histogram(values, edges)
    frame = Frame((float(edges[0]), float(edges[-1])), (0, max(float(amounts.max()) * 1.05, 1.0)))
    bars = "".join(
        f"<path class='bar' d='M{frame.across(left) + 0.6:.1f} {frame.up(0):.1f}"
        f"V{frame.up(amount):.1f}H{frame.across(right) - 0.6:.1f}V{frame.up(0):.1f}Z'/>"
        for left, right, amount in zip(edges[:-1], edges[1:], amounts, strict=True)
        if amount
    )
    return frame.svg(bars, f"Distribution of {x_title}", x_title, "molecules")


def parity(measured: NDArray[np.float64], predicted: NDArray[np.float64], unit: str) -> str:
    """Draws held-out predictions against measured values, with the line of equality."""
    both = np.concatenate([measured, predicted])
    margin = 0.03 * float(np.ptp(both))
    reach = (float(both.min()) - margin, float(both.max()) + margin)
    frame = Frame(reach, reach)
    dots = "".join(
        f"<circle cx='{frame.across(x):.0f}' cy='{frame.up(y):.0f}' r='2'/>"
        for x, y in zip(measured, predicted, strict=True)
    )
    line = (
        f"<path class='equal' d='M{frame.across(reach[0]):.1f} {frame.up(reach[0]):.1f}"
        f"L{frame.across(reach[1]):.1f} {frame.up(reach[1]):.1f}'/>"
    )
    body = f"{line}<g class='dots'>{dots}</g>"
    return frame.svg(body, "Predicted against measured", f"measured, {unit}", f"predicted, {unit}")
