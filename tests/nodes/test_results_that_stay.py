"""Large results of tasks that may run twice: they stay at the node that made them, for tasks that need them, until the
program asks for them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, wait
from pathlib import Path
from typing import Any

import pytest

from gristmill import Executor, on
from gristmill._nodes.local import LocalNodes

import calls
from blobs import counts, spilled
from proxy import RelayedNodes
from stage import Gate, wait_for_nodes

pytestmark = pytest.mark.slow

numpy = pytest.importorskip("numpy")

Gates = tuple[Gate, Gate]
MakeNodes = Callable[..., tuple[Executor, LocalNodes]]

#: Size of a result, bytes.
SIZE = 4 << 20


def count_up(size: int) -> numpy.ndarray:
    made: numpy.ndarray = numpy.arange(size, dtype=numpy.uint64).astype(numpy.uint8)
    return made


def add_one(values: numpy.ndarray) -> numpy.ndarray:
    return values + numpy.uint8(1)


def home_bytes(executor: Executor) -> int:
    return sum(node.received_bytes for node in executor.nodes())


def count_up_after(size: int, _begun: object) -> numpy.ndarray:
    return count_up(size)


def sum_behind(path: str, values: numpy.ndarray) -> int:
    calls.enter(path)
    return int(values.sum())


@pytest.fixture
def gates(gate: Gate, tmp_path: Path) -> Iterator[Gates]:
    """Yields the test's gate and a second one."""
    folder = tmp_path / "second"
    folder.mkdir()
    second = Gate(folder)
    yield gate, second
    second.close()


def make_stay(executor: Executor, gates: Gates, loss_retries: int = 2) -> Future[Any]:
    """Returns the future of a task whose result has stayed at its node while a dependent task used it."""
    first, second = gates
    begun = executor.submit(calls.enter, first.path)
    made = executor.options(loss_retries=loss_retries).submit(count_up_after, SIZE, begun)
    total = executor.submit(sum_behind, second.path, made)
    # ``made`` returns after ``total`` was submitted and before ``total`` ends.
    first.open(1)
    second.wait_entered()
    while "until the program requests it" not in executor.explain(made):
        pass
    second.open(1)
    assert total.result() == count_up(SIZE).sum()
    return made


def test_it_stays_until_its_task_is_looked_at(make_nodes: MakeNodes, gates: Gates) -> None:
    executor, _ = make_nodes(2, 1)
    wait_for_nodes(executor, 2)
    made = make_stay(executor, gates)
    sums = [executor.submit(numpy.sum, made) for _ in range(10)]
    assert [one.result() for one in sums] == [count_up(SIZE).sum()] * 10
    assert home_bytes(executor) < SIZE
    while not made.done():
        pass
    assert numpy.array_equal(made.result(), count_up(SIZE))
    assert counts(executor)["given"] == 0


def test_a_chain_comes_home_now_and_then(make_nodes: MakeNodes, gates: Gates) -> None:
    executor, _ = make_nodes(2, 1)
    repeated = executor.options(loss_retries=2)
    begun = executor.submit(calls.enter, gates[0].path)
    last = repeated.submit(count_up_after, SIZE, begun)
    for _ in range(60):
        last = repeated.submit(add_one, last)
    gates[0].open(1)
    assert numpy.array_equal(last.result(), count_up(SIZE) + numpy.uint8(60))
    assert home_bytes(executor) < 10 * SIZE
    assert executor.stats().outstanding == 0, "no caller can request the others"


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
def test_a_task_that_needs_a_file_has_it_staged(
    make_nodes: MakeNodes, gates: Gates, bring: Callable[[Future[Any]], None]
) -> None:
    executor, _ = make_nodes(1, 1)
    made = make_stay(executor, gates)
    bring(made)
    assert made.done()
    assert numpy.array_equal(made.result(), count_up(SIZE))


def test_shutting_down_brings_what_is_held(make_nodes: MakeNodes, gates: Gates) -> None:
    executor, _ = make_nodes(1, 1)
    made = make_stay(executor, gates)
    executor.shutdown()
    assert numpy.array_equal(made.result(), count_up(SIZE))


def test_a_node_that_drains_brings_it_home(make_nodes: MakeNodes, gates: Gates) -> None:
    executor, placement = make_nodes(1, 1)
    made = make_stay(executor, gates, loss_retries=1)
    agent = placement.agents[0]
    agent.terminate()
    assert agent.wait() == 0
    assert numpy.array_equal(made.result(), count_up(SIZE))
    assert executor.stats().loss_retries == 0


def test_one_that_is_let_go_on_its_way_is_fetched_again(
    make_nodes: MakeNodes, gates: Gates
) -> None:
    executor, placement = make_nodes(1, 1, kind=RelayedNodes)
    assert isinstance(placement, RelayedNodes)
    made = make_stay(executor, gates)
    placement.relay.hold_after(SIZE // 4)
    assert not made.done()
    while f" of {SIZE} bytes have arrived" not in executor.explain(made):
        pass
    del made
    while executor.stats().outstanding:
        pass
    placement.relay.go_on()
    # The same bytes are made again at the same node.
    assert numpy.array_equal(make_stay(executor, gates).result(), count_up(SIZE))


def node_of(executor: Executor, made: Future[Any]) -> int:
    """Returns the number of the node that has a result."""
    text = executor.explain(made)
    return next(number for number in range(9) if f"at node local{number}" in text)


@pytest.mark.usefixtures("soon_missed")
def test_one_that_is_lost_with_its_node_is_made_again(make_nodes: MakeNodes, gates: Gates) -> None:
    executor, placement = make_nodes(2, 1)
    wait_for_nodes(executor, 2)
    made = make_stay(executor, gates)
    changed = executor.options(loss_retries=2).submit(add_one, made)
    placement.agents[node_of(executor, made)].kill()
    assert numpy.array_equal(changed.result(), add_one(count_up(SIZE)))
    assert numpy.array_equal(made.result(), count_up(SIZE))
    assert executor.submit(numpy.sum, made).result() == count_up(SIZE).sum()


@pytest.mark.usefixtures("soon_missed")
def test_one_that_is_lost_too_often_is_lost(make_nodes: MakeNodes, gates: Gates) -> None:
    executor, placement = make_nodes(2, 1)
    wait_for_nodes(executor, 2)
    made = make_stay(executor, gates, loss_retries=1)
    first = node_of(executor, made)
    placement.agents[first].kill()
    # The task runs again, and its result comes home at once: another loss would be its last.
    while f"local{first}" in executor.explain(made):
        pass
    assert numpy.array_equal(made.result(), count_up(SIZE))


def test_without_a_budget_for_losses_it_comes_home(make_nodes: MakeNodes) -> None:
    executor, placement = make_nodes(1, 1)
    made = executor.submit(count_up, SIZE)
    # This task runs at the node of that result, and does not wait until the result is home.
    assert executor.submit(numpy.sum, made).result() == count_up(SIZE).sum()
    while executor.stats().outstanding:
        pass
    placement.agents[0].kill()
    assert numpy.array_equal(made.result(), count_up(SIZE))


@pytest.mark.parametrize("disk", [0, 100 * SIZE])
def test_it_stays_whatever_the_limits_say(make_nodes: MakeNodes, gates: Gates, disk: int) -> None:
    executor, placement = make_nodes(1, 1, blobs=on.Blobs(memory=0, disk=disk))
    made = [make_stay(executor, gates) for _ in range(3)]
    while disk and not spilled(placement):
        executor.submit(calls.nothing).result()
    changed = [executor.submit(add_one, one) for one in made]
    for one in changed:
        assert numpy.array_equal(one.result(), add_one(count_up(SIZE)))
    for one in made:
        assert numpy.array_equal(one.result(), count_up(SIZE))
    assert executor.stats().loss_retries == 0
