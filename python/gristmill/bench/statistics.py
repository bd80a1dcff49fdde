"""Medians, and how sure they are, without a guess at how samples are distributed: times never are normally."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import median
from typing import NamedTuple

#: Where the true median is with this probability, if there are samples enough.
CONFIDENCE = 0.95
#: Runs of each where nobody says how many: the fewest whose extremes are so sure.
REPEATS = 6


class Median(NamedTuple):
    """A median of samples, with the bounds of its confidence interval; the extremes, where samples are too few."""

    value: float
    low: float
    high: float
    samples: int
    #: How likely the true median is between the bounds.
    confidence: float


def median_of(samples: Sequence[float]) -> Median:
    """The median of independent samples, at least one.

    The interval is that of order statistics (Le Boudec, *Performance Evaluation*, 2010, section 2.2): that the true
    median is between the ``j``-th sample from below and from above is as likely as ``j`` to ``n - j`` heads of ``n``
    coins.
    """
    ordered, count = sorted(samples), len(samples)
    # Integers: floats cannot count as many ways in which a thousand coins fall.
    ways = 1 << count
    #: Samples below the interval; ways with no more heads than that, and with one more.
    below, outside, more = 0, 1, count
    while 2 * (below + 1) < count and (ways - 2 * (outside + more)) / ways >= CONFIDENCE:
        below, outside = below + 1, outside + more
        more = more * (count - below) // (below + 1)
    inside = max(0.0, (ways - 2 * outside) / ways)
    return Median(median(ordered), ordered[below], ordered[count - 1 - below], count, inside)
