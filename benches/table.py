"""The printed table: medians, spreads, ratios, goals, and which of them were reached."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import median, quantiles

from benches.model import Better, Goal, Line

HEADINGS = ("row", "ours", "beside", "", "ratio", "must", "moonshot", "reached")
LEGEND = "median (quartiles; samples); ratio = ours / beside, median of the pairs (quartiles)"

Series = Mapping[tuple[str, str], Sequence[float]]
_PREFIXES = {1e9: "G", 1e6: "M", 1e3: "k", 1.0: "", 1e-3: "m", 1e-6: "u", 1e-9: "n"}


@dataclass(frozen=True)
class Verdict:
    """The evaluation of one line of the table."""

    line: Line
    unit: str
    ours: Sequence[float]
    reference: Sequence[float]
    missing: str = ""

    @property
    def ratios(self) -> list[float]:
        """Ours divided by the reference, pair by pair as they were sampled.

        Samples of two blocks were not taken in pairs, so they have one ratio, that of the medians.
        """
        if not self.ours or not self.reference:
            return []
        if self.line.reference_block:
            return [median(self.ours) / median(self.reference)]
        return [a / b for a, b in zip(self.ours, self.reference, strict=False) if b]

    @property
    def reached(self) -> str:
        """The name of the highest goal reached, or the reason why there is none."""
        line = self.line
        if not self.ours or (line.reference and not self.reference):
            return f"not measured: {self.missing}"
        if line.moonshot and self._meets(line.moonshot):
            return "moonshot"
        if line.must:
            return "must" if self._meets(line.must) else "NO"
        return "not the moonshot" if line.moonshot else "-"

    def cells(self) -> tuple[str, ...]:
        """Formats the line."""
        line = self.line
        return (
            line.label,
            spread(self.ours, self.unit),
            line.reference_name,
            spread(self.reference, self.unit),
            self._ratio_text(),
            goal_text(line.must, line.better, self.unit),
            goal_text(line.moonshot, line.better, self.unit),
            self.reached,
        )

    def _meets(self, goal: Goal) -> bool:
        value = median(self.ours if goal.of == "value" else self.ratios)
        return value >= goal.limit if self.line.better == "higher" else value <= goal.limit

    def _ratio_text(self) -> str:
        ratios = self.ratios
        if not ratios:
            return ""
        low, high = quartiles(ratios)
        spread_text = f" ({factor(low)}-{factor(high)})" if len(ratios) > 1 else ""
        return factor(median(ratios)) + spread_text


def verdict(line: Line, series: Series, unit: str, missing: str) -> Verdict:
    """Evaluates a line with all series of its row, keyed by block and series."""
    ours = series.get((line.block, line.ours), ())
    reference: Sequence[float] = ()
    if line.reference:
        reference = series.get((line.reference_block or line.block, line.reference), ())
    return Verdict(line, unit, ours, reference, missing)


def quartiles(samples: Sequence[float]) -> tuple[float, float]:
    """Returns the first and the third quartile."""
    if len(samples) < 2:
        return samples[0], samples[0]
    first, _, third = quantiles(samples, n=4, method="inclusive")
    return first, third


def spread(samples: Sequence[float], unit: str) -> str:
    """Formats a series: median, quartiles, number of samples."""
    if not samples:
        return ""
    low, high = quartiles(samples)
    middle = median(samples)
    size, prefix = scale(middle, unit)
    text = f"{digits(middle / size)} {prefix}{unit}"
    return f"{text} ({digits(low / size)}-{digits(high / size)}; {len(samples)})"


def quantity(value: float, unit: str) -> str:
    """Formats one value with its unit."""
    size, prefix = scale(value, unit)
    return f"{digits(value / size)} {prefix}{unit}"


def scale(value: float, unit: str) -> tuple[float, str]:
    """Returns the unit prefix for a value; percent, bytes and whole seconds upwards have none."""
    if unit in {"%", "B", "objects"} or not value or (unit == "s" and abs(value) >= 1):
        return 1.0, ""
    for size, prefix in _PREFIXES.items():
        if abs(value) >= size:
            return size, prefix
    return 1e-9, "n"


def digits(value: float) -> str:
    """Formats three significant digits without an exponent."""
    if not value or not math.isfinite(value):
        return f"{value:g}"
    places = max(0, 2 - math.floor(math.log10(abs(value))))
    return f"{value:.{places}f}"


def factor(value: float) -> str:
    """Formats a ratio; values below 0.1 as a fraction of one."""
    return f"{digits(value)}x" if value >= 0.1 or value <= 0 else f"1/{digits(1 / value)}"


def goal_text(goal: Goal | None, better: Better, unit: str) -> str:
    """Formats a goal."""
    if goal is None:
        return ""
    sign = ">=" if better == "higher" else "<="
    return f"{sign} {factor(goal.limit) if goal.of == 'ratio' else quantity(goal.limit, unit)}"


def render(verdicts: Sequence[Verdict]) -> str:
    """Formats the table in columns as wide as their widest cell."""
    rows = [HEADINGS, *(verdict.cells() for verdict in verdicts)]
    widths = [max(len(row[column]) for row in rows) for column in range(len(HEADINGS))]
    lines = [
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in rows
    ]
    lines.insert(1, "-" * max(len(line) for line in lines))
    return "\n".join([LEGEND, "", *lines, "", summary(verdicts)])


def summary(verdicts: Sequence[Verdict]) -> str:
    """Counts the promised figures that were reached."""
    promised = [verdict for verdict in verdicts if verdict.line.must]
    reached = sum(verdict.reached in {"must", "moonshot"} for verdict in promised)
    missing = sum(verdict.reached.startswith("not measured") for verdict in promised)
    return f"musts: {reached} of {len(promised)} reached, {missing} not measured"
