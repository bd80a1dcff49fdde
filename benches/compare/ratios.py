"""Verdicts of pairs of measurements: the median ratio, its interval, and what follows from it.

Source: Efron & Tibshirani, An Introduction to the Bootstrap, 1993, chapter 13 (percentile intervals).
"""

import random
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median

from benches.model import Better

#: Resamples of a bootstrap.
RESAMPLES = 10_000
#: A wider interval than this on either side, as a share of the median, decides nothing.
RESOLUTION = 0.05


@dataclass(frozen=True)
class Estimate:
    """A median ratio with its 95 % interval. Above 1 the second commit is better."""

    ratio: float
    low: float
    high: float

    @property
    def is_resolved(self) -> bool:
        """True if the interval is narrow enough to decide."""
        return self.high - self.low <= 2 * RESOLUTION * self.ratio

    @property
    def verdict(self) -> str:
        """The verdict in a word or two."""
        if self.high < 1:
            return "WORSE"
        if not self.is_resolved:
            return "not resolved"
        return "better" if self.low > 1 else "not worse"

    def __str__(self) -> str:
        return f"{self.ratio:.3f} [{self.low:.3f}, {self.high:.3f}]"


def gains(base: Sequence[float], head: Sequence[float], better: Better) -> list[float]:
    """Returns the ratio of each pair, turned so that a number above 1 is better for `head`."""
    pairs = zip(base, head, strict=True)
    return [new / old if better == "higher" else old / new for old, new in pairs]


def estimate(ratios: Sequence[float], seed: int = 0) -> Estimate:
    """Returns the median of ratios with its bootstrap interval; the seed makes it repeatable."""
    draw = random.Random(seed)
    medians = sorted(median(draw.choices(ratios, k=len(ratios))) for _ in range(RESAMPLES))
    cut = round(0.025 * RESAMPLES)
    return Estimate(median(ratios), medians[cut], medians[-1 - cut])
