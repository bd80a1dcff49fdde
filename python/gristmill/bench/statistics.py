"""Medians, and how sure they are, without a guess at how samples are distributed: times never are normally."""

from __future__ import annotations

from collections.abc import Sequence
from math import comb
from statistics import median
from typing import NamedTuple

#: Where the true median is with this probability, if there are samples enough.
CONFIDENCE = 0.95


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
    below, inside = 0, 1 - 2 * _heads(count, 0)
    while (
        2 * (below + 1) < count
        and (narrower := 1 - 2 * sum(_heads(count, one) for one in range(below + 2))) >= CONFIDENCE
    ):
        below, inside = below + 1, narrower
    return Median(
        median(ordered), ordered[below], ordered[count - 1 - below], count, max(0.0, inside)
    )


def _heads(coins: int, heads: int) -> float:
    return comb(coins, heads) / 2.0**coins
