"""Medians and their confidence, with no assumption about the distribution of samples: times are never normal."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import median
from typing import NamedTuple

#: The least probability that the true median is in the interval, if there are enough samples.
CONFIDENCE = 0.95
#: The default number of runs: the fewest whose extremes give that confidence.
REPEATS = 6


class Median(NamedTuple):
    """A median of samples, with the bounds of its confidence interval, or the extremes if there are too few samples."""

    value: float
    low: float
    high: float
    samples: int
    #: The probability that the true median is between the bounds.
    confidence: float


def median_of(samples: Sequence[float]) -> Median:
    """Returns the median of independent samples, at least one.

    The interval is that of order statistics (Le Boudec, *Performance Evaluation*, 2010, section 2.2): the true median
    is between the ``j``-th sample from below and from above with the probability of ``j`` to ``n - j`` heads of ``n``
    coins.
    """
    ordered, count = sorted(samples), len(samples)
    # Integers, because floats cannot count the outcomes of a thousand coins.
    ways = 1 << count
    #: Samples below the interval; outcomes with no more heads than that; outcomes with exactly one more head.
    below, outside, more = 0, 1, count
    while 2 * (below + 1) < count and (ways - 2 * (outside + more)) / ways >= CONFIDENCE:
        below, outside = below + 1, outside + more
        more = more * (count - below) // (below + 1)
    inside = max(0.0, (ways - 2 * outside) / ways)
    return Median(median(ordered), ordered[below], ordered[count - 1 - below], count, inside)
