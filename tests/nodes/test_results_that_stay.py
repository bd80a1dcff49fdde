"""Large results of tasks that may run twice: they stay where they were made, for tasks that need them, until asked for."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import FIRST_COMPLETED, Future, wait
from typing import Any

import pytest

from gristmill import Executor, on
from gristmill._nodes.local import LocalNodes

import calls
from blobs import counts, spilled, wait_for_nodes

pytestmark = pytest.mark.slow

numpy = pytest.importorskip("numpy")

MakeNodes = Callable[..., tuple[Executor, LocalNodes]]

#: Bytes of a result.
SIZE = 4 << 20


def count_up(size: int) -> numpy.ndarray:
    made: numpy.ndarray = numpy.arange(size, dtype=numpy.uint64).astype(numpy.uint8)
    return made


def add_one(values: numpy.ndarray) -> numpy.ndarray:
    return values + numpy.uint8(1)


def home_bytes(executor: Executor) -> int:
    return sum(node["received_bytes"] for node in executor._nodes())


def make_stay(executor: Executor, loss_retries: int = 2) -> Future[Any]:
    """A task whose result has stayed, and from which others were made."""
    repeated = executor.options(loss_retries=loss_retries)
    made = repeated.submit(count_up, SIZE)
    total = executor.submit(numpy.sum, made)
    assert total.result() == count_up(SIZE).sum()
    assert "until somebody asks for it" in executor.explain(made)
    return made


def test_it_stays_until_its_task_is_looked_at(make_nodes: MakeNodes) -> None:
    executor, _ = make_nodes(2, 1)
    wait_for_nodes(executor, 2)
    made = make_stay(executor)
    sums = [executor.submit(numpy.sum, made) for _ in range(10)]
    assert [one.result() for one in sums] == [count_up(SIZE).sum()] * 10
    assert home_bytes(executor) < SIZE
    while not made.done():
        pass
    assert numpy.array_equal(made.result(), count_up(SIZE))
    assert counts(executor)["given"] == 0


def test_a_chain_comes_home_now_and_then(make_nodes: MakeNodes) -> None:
    executor, _ = make_nodes(2, 1)
    repeated = executor.options(loss_retries=2)
    last = repeated.submit(count_up, SIZE)
    for _ in range(60):
        last = repeated.submit(add_one, last)
    assert numpy.array_equal(last.result(), count_up(SIZE) + numpy.uint8(60))
    assert home_bytes(executor) < 10 * SIZE
    assert executor.stats()["outstanding"] == 0, "nobody can ask for the others"


def brought_by_result(future: Future[Any]) -> None:
    future.result()


def brought_by_wait(future: Future[Any]) -> None:
    wait([future])


def brought_by_wait_for_any(future: Future[Any]) -> None:
    wait([future, Future()], return_when=FIRST_COMPLETED)


def brought_by_callback(future: Future[Any]) -> None:
    seen: Future[Any] = Future()
    future.add_done_callback(seen.set_result)
    assert seen.result() is future


def brought_by_exception(future: Future[Any]) -> None:
    assert future.exception() is None


@pytest.mark.parametrize(
    "bring",
    [
        brought_by_result,
        brought_by_wait,
        brought_by_wait_for_any,
        brought_by_callback,
        brought_by_exception,
    ],
)
def test_whoever_asks_has_it_brought(
    make_nodes: MakeNodes, bring: Callable[[Future[Any]], None]
) -> None:
    executor, _ = make_nodes(1, 1)
    made = make_stay(executor)
    bring(made)
    assert made.done()
    assert numpy.array_equal(made.result(), count_up(SIZE))


def test_shutting_down_brings_what_is_held(make_nodes: MakeNodes) -> None:
    executor, _ = make_nodes(1, 1)
    made = make_stay(executor)
    executor.shutdown()
    assert numpy.array_equal(made.result(), count_up(SIZE))


def test_a_node_that_drains_brings_it_home(make_nodes: MakeNodes) -> None:
    executor, placement = make_nodes(1, 1)
    made = make_stay(executor, loss_retries=1)
    placement.agents[0].terminate()
    assert placement.agents[0].wait() == 0
    assert numpy.array_equal(made.result(), count_up(SIZE))
    assert executor.stats()["loss_retries"] == 0


def node_of(executor: Executor, made: Future[Any]) -> int:
    """The number of the node that has a result."""
    text = executor.explain(made)
    return next(number for number in range(9) if f"at node local{number}" in text)


def test_one_that_is_lost_with_its_node_is_made_again(make_nodes: MakeNodes) -> None:
    executor, placement = make_nodes(2, 1)
    wait_for_nodes(executor, 2)
    made = make_stay(executor)
    changed = executor.options(loss_retries=2).submit(add_one, made)
    total = executor.submit(numpy.sum, changed)
    assert total.result() == add_one(count_up(SIZE)).sum()
    placement.agents[node_of(executor, changed)].kill()
    assert numpy.array_equal(changed.result(), add_one(count_up(SIZE)))
    assert numpy.array_equal(made.result(), count_up(SIZE))
    assert executor.submit(numpy.sum, made).result() == count_up(SIZE).sum()


def test_one_that_is_lost_too_often_is_lost(make_nodes: MakeNodes) -> None:
    executor, placement = make_nodes(2, 1)
    wait_for_nodes(executor, 2)
    made = make_stay(executor, loss_retries=1)
    first = node_of(executor, made)
    placement.agents[first].kill()
    # It runs again, and comes home at once: another loss would be the end of it.
    while f"local{first}" in executor.explain(made):
        pass
    assert numpy.array_equal(made.result(), count_up(SIZE))


def test_without_a_budget_for_losses_it_comes_home(make_nodes: MakeNodes) -> None:
    executor, placement = make_nodes(1, 1)
    made = executor.submit(count_up, SIZE)
    assert executor.submit(numpy.sum, made).result() == count_up(SIZE).sum()
    assert made.done()
    placement.agents[0].kill()
    assert numpy.array_equal(made.result(), count_up(SIZE))


@pytest.mark.parametrize("disk", [0, 100 * SIZE])
def test_it_stays_whatever_the_limits_say(make_nodes: MakeNodes, disk: int) -> None:
    executor, placement = make_nodes(1, 1, blobs=on.Blobs(memory=0, disk=disk))
    made = [make_stay(executor) for _ in range(3)]
    while disk and not spilled(placement):
        executor.submit(calls.nothing).result()
    changed = [executor.submit(add_one, one) for one in made]
    for one in changed:
        assert numpy.array_equal(one.result(), add_one(count_up(SIZE)))
    for one in made:
        assert numpy.array_equal(one.result(), count_up(SIZE))
    assert executor.stats()["loss_retries"] == 0
