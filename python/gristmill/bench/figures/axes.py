"""What all pictures with axes have in common."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from gristmill.bench.statistics import Median

#: So many times between the least and the most, and an axis is logarithmic.
_WIDE = 20.0


def is_wide(values: list[float]) -> bool:
    """Whether an axis is to be logarithmic."""
    return min(values) > 0 and max(values) > _WIDE * min(values)


def legend(area: Any) -> None:
    """Says beside an area which series is which."""
    area.legend(fontsize="small", loc="center left", bbox_to_anchor=(1.0, 0.5))


def spread(medians: Collection[Median]) -> list[list[float]]:
    """How far intervals go below and above their medians, as error bars are told."""
    below = [one.value - one.low for one in medians]
    return [below, [one.high - one.value for one in medians]]
