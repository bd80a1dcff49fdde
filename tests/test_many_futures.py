"""Tens of thousands of futures and of named values in one call, and of calls that need one result."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

import gristmill
from gristmill import Executor, Future, Lease, on

import calls

#: A number that needs more than 16 bits.
MANY = 70_000
MORE = 200_000


@pytest.fixture(scope="module", params=["here", "node", "lease", "lease on a node"])
def place(request: pytest.FixtureRequest) -> Iterator[Executor]:
    """Yields an executor of one worker: of this machine or of a node, with a lease and without one."""
    makers: dict[str, Callable[[], Executor]] = {
        "here": lambda: Executor(1),
        "node": lambda: Executor(nodes=on.local(1, 1)),
        "lease": lambda: Lease(max_workers=1),
        "lease on a node": lambda: Lease(on.local(1, 1), max_workers=1),
    }
    with makers[request.param]() as executor:
        yield executor


@pytest.fixture(scope="module")
def leaves(place: Executor) -> list[Future[int]]:
    """Returns futures with the numbers from 0 on."""
    return place.submit_many(calls.same, range(MANY))


def test_more_futures_than_16_bits_count(place: Executor, leaves: list[Future[int]]) -> None:
    numbers = list(range(MANY))
    assert place.submit(calls.both, *leaves).result() == (tuple(numbers), {})
    assert place.submit(calls.same, leaves).result() == numbers
    assert place.submit(calls.same, dict(enumerate(leaves))).result() == dict(enumerate(numbers))
    named = {f"n{number}": leaf for number, leaf in enumerate(leaves)}
    by_name = {f"n{number}": number for number in numbers}
    assert place.submit(calls.both, **named).result() == ((), by_name)
    # A set in the arguments makes a pickle of the whole call; each future occurs twice.
    positional, _ = place.submit(calls.both, {1}, [leaves, leaves[::-1]]).result()
    assert positional == ({1}, [numbers, numbers[::-1]])


def test_more_futures_than_16_bits_count_that_have_no_values_yet(place: Executor) -> None:
    leaves = place.submit_many(calls.same, range(MORE))
    assert place.submit(calls.add, *leaves).result() == sum(range(MORE))


def test_named_values_beyond_16_bits(place: Executor) -> None:
    named = {f"n{number}": number for number in range(MANY)}
    assert place.submit(calls.both, **named).result() == ((), named)


def test_one_result_that_very_many_calls_need(place: Executor) -> None:
    root = place.submit(calls.same, 1)
    dependants = [place.submit(calls.add, root, number) for number in range(MANY)]
    assert [dependant.result() for dependant in dependants] == list(range(1, MANY + 1))


def gather(count: int) -> int:
    executor = gristmill.current_executor()
    leaves = [executor.submit(calls.same, number) for number in range(count)]
    total: int = executor.submit(calls.total, leaves).result()
    return total


def test_more_futures_of_a_tasks_own_tasks_than_16_bits_count(place: Executor) -> None:
    assert place.submit(gather, MANY).result() == sum(range(MANY))
