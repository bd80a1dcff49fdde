"""Parts that all pictures with axes share."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from gristmill_bench.statistics import Median

#: The ratio of the largest to the smallest value above which an axis is logarithmic.
_WIDE = 20.0


def is_wide(values: list[float]) -> bool:
    """Returns whether an axis is logarithmic."""
    return min(values) > 0 and max(values) > _WIDE * min(values)


def legend(area: Any) -> None:
    """Draws beside an area the legend of its series."""
    area.legend(fontsize="small", loc="center left", bbox_to_anchor=(1.0, 0.5))


def spread(medians: Collection[Median]) -> list[list[float]]:
    """Returns the distances of the interval bounds below and above the medians, as error bars need them."""
    below = [one.value - one.low for one in medians]
    return [below, [one.high - one.value for one in medians]]
