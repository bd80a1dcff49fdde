"""The worker's traceback travels with an exception, as its innermost cause."""

from collections.abc import Iterator

import pytest

import gristmill

pytestmark = pytest.mark.interpreter


@pytest.fixture(scope="module")
def executor() -> Iterator[gristmill.Executor]:
    with gristmill.Executor(max_workers=1) as executor:
        yield executor


def divide_at_depth(depth: int) -> float:
    return divide_at_depth(depth - 1) if depth else 1 / 0


def raise_over_a_cause() -> None:
    try:
        divide_at_depth(0)
    except ZeroDivisionError as error:
        raise ValueError("outer") from error


def test_the_traceback_names_each_call_of_the_worker(executor: gristmill.Executor) -> None:
    error = executor.submit(divide_at_depth, 2).exception()
    assert isinstance(error, ZeroDivisionError)
    assert isinstance(error.__cause__, gristmill.RemoteTraceback)
    assert error.__cause__.text.count("in divide_at_depth") == 3
    assert error.__cause__.tb == error.__cause__.text


def test_the_traceback_is_behind_the_causes_of_the_exception(executor: gristmill.Executor) -> None:
    error = executor.submit(raise_over_a_cause).exception()
    assert isinstance(error, ValueError)
    assert isinstance(error.__cause__, ZeroDivisionError)
    assert isinstance(error.__cause__.__cause__, gristmill.RemoteTraceback)
    assert "in raise_over_a_cause" in error.__cause__.__cause__.text
