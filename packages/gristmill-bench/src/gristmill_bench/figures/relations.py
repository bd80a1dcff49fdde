"""Checks that many figures share."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from gristmill_bench.figures.data import Data, Place

Check = Callable[[Data], tuple[bool, str]]


def at_least(one: str, times: float, other: str, places: Sequence[Place]) -> Check:
    """Returns a check that a series is at least ``times`` another series at each of some places."""

    def check(data: Data) -> tuple[bool, str]:
        ratios = [data.at(one, place) / data.at(other, place) for place in places]
        return min(ratios) >= times, _ratios(ratios)

    return check


def alike(one: str, other: str, factor: float, places: Sequence[Place]) -> Check:
    """Returns a check that two series differ by no more than a factor at each of some places."""

    def check(data: Data) -> tuple[bool, str]:
        ratios = [data.at(one, place) / data.at(other, place) for place in places]
        return all(1 / factor <= ratio <= factor for ratio in ratios), _ratios(ratios)

    return check


def highest(one: str, others: Sequence[str], places: Sequence[Place]) -> Check:
    """Returns a check that a series is the highest of some series at each of some places."""

    def check(data: Data) -> tuple[bool, str]:
        ratios = {
            other: min(data.at(one, place) / data.at(other, place) for place in places)
            for other in others
        }
        text = ", ".join(f"{ratio:.3g}x {name}" for name, ratio in ratios.items())
        return min(ratios.values()) >= 1, f"at least {text}"

    return check


def grows(series: str, factor: float, first: Place, last: Place) -> Check:
    """Returns a check that a series grows by a factor or more from one place to another."""

    def check(data: Data) -> tuple[bool, str]:
        ratio = data.at(series, last) / data.at(series, first)
        return ratio >= factor, f"{ratio:.3g}x from {first} to {last}"

    return check


def every(*checks: Check) -> Check:
    """Returns a check that all given checks hold."""

    def check(data: Data) -> tuple[bool, str]:
        found = [one(data) for one in checks]
        return all(holds for holds, _ in found), "; ".join(text for _, text in found)

    return check


def _ratios(ratios: Sequence[float]) -> str:
    low, high = min(ratios), max(ratios)
    return f"{low:.3g}x" if low == high else f"{low:.3g}x to {high:.3g}x"
