"""Charts of a profile as inline SVG that takes its colours from the page, light or dark.

Drawings contain no colour and no ``xmlns``: inline SVG needs none, and the page contains no address.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from html import escape
from typing import NamedTuple

from gristmill._profile import timings
from gristmill._profile.categories import CATEGORIES
from gristmill._profile.rows import Row

_WIDTH, _LINE = 900, 26
#: The approximate width of a letter, in units of the drawing.
_LETTER = 6.4


class _Frame(NamedTuple):
    """The edges of a chart's values on the page, in units of the drawing."""

    left: float
    right: float
    top: float
    bottom: float


def bars(rows: Sequence[Row]) -> str:
    """Draws a bar for each row, with its time divided among the categories."""
    names = [_row_name(row) for row in rows]
    left = min(330.0, 16 + _LETTER * max(map(len, names), default=0))
    width = _WIDTH - left - 10
    lines = []
    for place, (row, name) in enumerate(zip(rows, names, strict=True)):
        y = place * _LINE
        x = left
        lines.append(f"<text x='{left - 8:.0f}' y='{y + 17}' class='end'>{escape(name)}</text>")
        for category in CATEGORIES:
            share = row.share(category)
            if share < 0.0005:
                continue
            place_of = CATEGORIES.index(category)
            title = f"{name}: {category} {share:.1%}"
            lines.append(
                f"<rect class='c{place_of}' x='{x:.1f}' y='{y + 3}'"
                f" width='{share * width:.1f}' height='{_LINE - 7}'><title>{escape(title)}</title></rect>"
            )
            if share * width > 34:
                middle = x + share * width / 2
                lines.append(
                    f"<text x='{middle:.1f}' y='{y + 17}' class='mid on on{place_of}'>{share:.0%}</text>"
                )
            x += share * width
    return _svg("".join(lines), len(rows) * _LINE + 2, "Time of each thread by category")


def _row_name(row: Row) -> str:
    many = f" ({row.threads})" if row.threads > 1 else ""
    return f"{row.process} · {row.thread}{many}"


def hops(found: Sequence[timings.Hop]) -> str:
    """Draws a line for each component from the median to the 95th percentile, on a logarithmic axis."""
    low, high = timings.decades(found)
    frame = _Frame(250, _WIDTH - 24, 4, len(found) * _LINE + 4)

    def across(time: float) -> float:
        share = (math.log10(max(time, 10**low)) - low) / (high - low)
        return frame.left + share * (frame.right - frame.left)

    lines = []
    for power in range(low, high + 1):
        x = across(10**power)
        text = timings.label(power).replace("us", "µs")
        lines.append(f"<path class='grid' d='M{x:.1f} {frame.top}V{frame.bottom}'/>")
        lines.append(f"<text x='{x:.1f}' y='{frame.bottom + 17}' class='mid'>{text}</text>")
    for place, hop in enumerate(found):
        y = frame.top + (place + 0.5) * _LINE
        lines.append(
            f"<text x='{frame.left - 10}' y='{y + 4}' class='end'>{escape(hop.name)}</text>"
        )
        if hop.p95 > 0:
            title = f"{hop.name}: median {hop.median / 1e3:,.2f} µs, p95 {hop.p95 / 1e3:,.2f} µs"
            lines.append(
                f"<path class='span' d='M{across(hop.median):.1f} {y}H{across(hop.p95):.1f}'>"
                f"<title>{escape(title)}</title></path>"
            )
            lines.append(f"<path class='late' d='M{across(hop.p95):.1f} {y - 6}V{y + 6}'/>")
        if hop.median > 0:
            lines.append(f"<circle class='middle' cx='{across(hop.median):.1f}' cy='{y}' r='5'/>")
    return _svg("".join(lines), frame.bottom + 24, "Time of tasks by component")


def objects(counts: Sequence[Sequence[float]]) -> str:
    """Draws the tracked objects over the seconds of a run; each of ``counts`` is seconds, objects, blocks."""
    frame = _Frame(76, _WIDTH - 14, 10, 190)
    longest = max(counts[-1][0], 1e-3)
    # The axis starts at zero, so that small changes look small.
    most = max(max(one[1] for one in counts) * 1.08, 1.0)

    def across(seconds: float) -> float:
        return frame.left + seconds / longest * (frame.right - frame.left)

    def up(count: float) -> float:
        return frame.bottom - count / most * (frame.bottom - frame.top)

    lines = []
    for tick in ticks(most):
        y = up(tick)
        lines.append(f"<path class='grid' d='M{frame.left} {y:.1f}H{frame.right}'/>")
        lines.append(f"<text x='{frame.left - 8}' y='{y + 4:.1f}' class='end'>{tick:,.0f}</text>")
    for tick in ticks(longest):
        lines.append(
            f"<text x='{across(tick):.1f}' y='{frame.bottom + 18}' class='mid'>{tick:g} s</text>"
        )
    points = "L".join(f"{across(one[0]):.1f} {up(one[1]):.1f}" for one in counts)
    lines.append(f"<path class='course' d='M{points}'/>")
    if len(counts) <= 60:
        lines += [
            f"<circle class='middle' cx='{across(one[0]):.1f}' cy='{up(one[1]):.1f}' r='2.5'/>"
            for one in counts
        ]
    lines.append(f"<path class='axis' d='M{frame.left} {frame.bottom}H{frame.right}'/>")
    return _svg("".join(lines), frame.bottom + 26, "Objects that the collector tracks, over time")


def ticks(most: float) -> list[float]:
    """Returns about five round numbers from zero up to a value."""
    rough = most / 5
    power = 10.0 ** math.floor(math.log10(rough))
    step = next(power * factor for factor in (1, 2, 5, 10) if power * factor >= rough * 0.999)
    return [number * step for number in range(math.floor(most / step) + 1)]


def _svg(body: str, height: float, title: str) -> str:
    return f"<svg viewBox='0 0 {_WIDTH} {height:.0f}' role='img' aria-label='{escape(title)}'>{body}</svg>"
