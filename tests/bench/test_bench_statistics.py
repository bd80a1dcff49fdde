"""Medians with confidence intervals."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gristmill_bench.statistics import CONFIDENCE, REPEATS, median_of


def test_the_bounds_are_those_of_the_tables_of_order_statistics() -> None:
    # Source: Le Boudec, Performance Evaluation, table A.1: of 30 samples the 10th and the 21st, 95.7 %.
    found = median_of([float(number) for number in range(1, 31)])
    assert (found.value, found.low, found.high, found.samples) == (15.5, 10.0, 21.0, 30)
    assert found.confidence == pytest.approx(0.957, abs=0.001)


def test_few_samples_have_their_extremes_and_say_how_sure_these_are() -> None:
    found = median_of([3.0, 1.0, 2.0])
    assert found == (2.0, 1.0, 3.0, 3, 0.75)
    assert median_of([4.0]) == (4.0, 4.0, 4.0, 1, 0.0)


def test_runs_without_a_given_number_are_enough_for_the_confidence_that_is_named() -> None:
    assert median_of([0.0] * REPEATS).confidence >= CONFIDENCE
    assert median_of([0.0] * (REPEATS - 1)).confidence < CONFIDENCE


def test_thousands_of_samples_have_narrow_bounds() -> None:
    # By the normal distribution the 95 % interval of n samples is 1.96 times the square root of n wide.
    found = median_of([float(number) for number in range(10_000)])
    assert (found.low, found.high) == (4901.0, 5098.0)
    assert 0.95 <= found.confidence < 0.952


@given(st.lists(st.floats(0, 1e9), min_size=1, max_size=200))
def test_a_median_is_between_its_bounds(samples: list[float]) -> None:
    found = median_of(samples)
    assert min(samples) <= found.low <= found.value <= found.high <= max(samples)
    assert found.confidence >= 0.95 or found.low == min(samples)
