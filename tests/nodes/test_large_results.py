"""Large results on nodes: they come home in pieces, and tasks on other nodes fetch them from their origin."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from concurrent.futures import Future

import pytest

from gristmill import Executor, WorkerLostError, on
from gristmill._nodes.local import LocalNodes

import calls
from blobs import counts
from cgroups import group
from proxy import RelayedNodes
from stage import Gate, Script, wait_for_nodes

pytestmark = pytest.mark.slow

numpy = pytest.importorskip("numpy")

MakeNodes = Callable[..., tuple[Executor, LocalNodes]]

#: Size of a result, bytes.
SIZE = 16 << 20


def count_up(size: int, first: int = 0) -> numpy.ndarray:
    """Returns bytes that differ for each ``first``."""
    made: numpy.ndarray = numpy.arange(first, first + size, dtype=numpy.uint64).astype(numpy.uint8)
    return made


def test_tasks_have_a_result_where_it_was_made(make_nodes: MakeNodes) -> None:
    executor, _ = make_nodes(1, 1)
    made = executor.submit(count_up, SIZE)
    sums = [executor.submit(numpy.sum, made) for _ in range(10)]
    assert [one.result() for one in sums] == [count_up(SIZE).sum()] * 10
    assert numpy.array_equal(made.result(), count_up(SIZE))
    again = [executor.submit(numpy.sum, made) for _ in range(10)]
    assert [one.result() for one in again] == [count_up(SIZE).sum()] * 10
    found = counts(executor)
    assert found["named"] >= 10 * SIZE
    assert (found["given"], found["fetched"]) == (0, 0)


def test_other_nodes_get_a_result_from_there(make_nodes: MakeNodes, gate: Gate) -> None:
    executor, _ = make_nodes(3, 1)
    wait_for_nodes(executor, 3)
    made = executor.submit(count_up, SIZE)
    made.result()
    futures = [executor.submit(calls.enter, gate.path, made) for _ in range(3)]
    for _ in futures:
        gate.wait_entered()
    gate.open(3)
    for future in futures:
        assert numpy.array_equal(future.result(), count_up(SIZE))
    found = counts(executor)
    assert found["given"] == 0
    assert found["fetched"] == 2 * SIZE


def test_tasks_go_where_the_result_is_that_they_need(make_nodes: MakeNodes) -> None:
    executor, _ = make_nodes(2, 1)
    wait_for_nodes(executor, 2)
    made = executor.submit(count_up, SIZE)
    made.result()
    pids = {executor.submit(calls.pid, made).result() for _ in range(20)}
    assert len(pids) == 1
    assert counts(executor)["fetched"] == 0


def test_the_same_bytes_again_are_one(make_nodes: MakeNodes) -> None:
    executor, _ = make_nodes(2, 2)
    futures = [executor.submit(count_up, SIZE) for _ in range(20)]
    for future in futures:
        assert numpy.array_equal(future.result(), count_up(SIZE))


def test_results_beside_small_ones_and_several_in_one(make_nodes: MakeNodes) -> None:
    executor, _ = make_nodes(2, 2)
    small = [executor.submit(calls.same, number) for number in range(500)]
    pair = executor.submit(calls.both, count_up(SIZE), b"small", last=count_up(SIZE, 1))
    blocks = [executor.submit(calls.block, size) for size in (SIZE, 1 << 20, (1 << 20) - 1)]
    (first, text), named = pair.result()
    assert numpy.array_equal(first, count_up(SIZE))
    assert (text, named["last"][0]) == (b"small", 1)
    assert [len(block.result()) for block in blocks] == [SIZE, 1 << 20, (1 << 20) - 1]
    assert [future.result() for future in small] == list(range(500))


def test_what_the_program_writes_into_a_result_reaches_no_task(
    make_nodes: MakeNodes,
) -> None:
    executor, _ = make_nodes(2, 1)
    made = executor.submit(count_up, SIZE)
    made.result()[:] = 0
    assert executor.submit(numpy.sum, made).result() == count_up(SIZE).sum()


def test_a_node_that_has_no_room_for_its_results_gets_them_again(make_nodes: MakeNodes) -> None:
    executor, _ = make_nodes(1, 1, blobs=on.Blobs(memory=0, disk=0))
    made = executor.submit(count_up, SIZE)
    given = 0
    # A blob that no task uses is dropped within a second.
    while given == 0:
        assert executor.submit(numpy.sum, made).result() == count_up(SIZE).sum()
        given = counts(executor)["given"]


def submit_and_hold(
    executor: Executor, placement: LocalNodes, **options: int
) -> Future[numpy.ndarray]:
    """Submits a task; returns its future once the task has returned and a part of its result has arrived here."""
    assert isinstance(placement, RelayedNodes)
    wait_for_nodes(executor, placement.count)
    placement.relay.hold_after(SIZE // 4)
    future = executor.options(**options).submit(count_up, SIZE)  # type: ignore[arg-type]
    while f" of {SIZE} result bytes have come" not in executor.explain(future):
        pass
    return future


def test_a_result_on_its_way_is_not_there_yet(make_nodes: MakeNodes) -> None:
    executor, placement = make_nodes(1, 1, kind=RelayedNodes)
    future = submit_and_hold(executor, placement)
    assert not future.done()
    with pytest.raises(TimeoutError):
        future.result(timeout=0)
    placement.relay.go_on()
    assert numpy.array_equal(future.result(), count_up(SIZE))


def test_a_result_whose_connection_breaks_comes_over_the_next_one(make_nodes: MakeNodes) -> None:
    executor, placement = make_nodes(1, 1, kind=RelayedNodes)
    future = submit_and_hold(executor, placement)
    placement.relay.cut()
    placement.relay.go_on()
    assert numpy.array_equal(future.result(), count_up(SIZE))


@pytest.mark.usefixtures("soon_missed")
@pytest.mark.parametrize("loss_retries", [0, 1])
def test_a_result_whose_node_dies_on_the_way_is_lost_or_made_again(
    make_nodes: MakeNodes, loss_retries: int
) -> None:
    executor, placement = make_nodes(2, 1, kind=RelayedNodes)
    future = submit_and_hold(executor, placement, loss_retries=loss_retries)
    found = re.search(r"node (local\d)", executor.explain(future))
    assert found is not None
    name = found[1]
    placement.agents[int(name.removeprefix("local"))].kill()
    placement.relay.go_on()
    if loss_retries:
        assert numpy.array_equal(future.result(), count_up(SIZE))
    else:
        with pytest.raises(WorkerLostError, match=f"node {name} was lost while it had the task"):
            future.result()


def test_a_node_that_is_stopped_sends_its_results_first(make_nodes: MakeNodes) -> None:
    executor, placement = make_nodes(1, 1, kind=RelayedNodes)
    future = submit_and_hold(executor, placement)
    placement.agents[0].terminate()
    placement.relay.go_on()
    assert numpy.array_equal(future.result(), count_up(SIZE))


def test_a_map_on_nodes_reads_a_bounded_number_of_bytes_ahead(make_nodes: MakeNodes) -> None:
    executor, _ = make_nodes(1, 2)
    wait_for_nodes(executor, 1)
    size = 4 << 20
    read = 0

    def items() -> Iterator[numpy.ndarray]:
        nonlocal read
        for number in range(200):
            read += 1
            yield numpy.full(size, number, numpy.uint8)

    results = executor.map(numpy.max, items())
    assert next(results) == 0
    assert (read - 1) * size <= (256 << 20) + size
    assert list(results) == list(range(1, 200))
    assert read == 200


def test_a_map_on_nodes_with_large_results_does_not_run_far_ahead(make_nodes: MakeNodes) -> None:
    executor, _ = make_nodes(1, 2)
    wait_for_nodes(executor, 1)
    read = 0

    def sizes() -> Iterator[int]:
        nonlocal read
        for _ in range(1400):
            read += 1
            yield 1 << 20

    results = executor.map(count_up, sizes())
    for _ in range(1000):  # most of the items that are read before the first result arrives
        assert next(results).size == 1 << 20
    assert read - 1000 <= 256 + 64, "items are read by the batch"
    results.close()  # type: ignore[attr-defined]


MANY = """
    import os, sys
    open(sys.argv[1], "w").write(str(os.getpid()))
    from gristmill import Executor
    from gristmill._nodes.local import LocalNodes

    def many():
        return [bytes([number]) * 900_000 for number in range(80)]

    with Executor(nodes=LocalNodes(1, 1)) as executor:
        assert executor.submit(abs, -1).result() == 1
        errors = [executor.submit(len, many()).exception(), executor.submit(many).exception()]
        assert executor.submit(abs, -2).result() == 2
        (node,) = executor.nodes()
        assert node.sent_bytes + node.received_bytes < 10_000_000, node
        for error in errors:
            print(type(error).__name__, error)
"""


def test_values_that_are_too_large_for_the_other_end_are_not_sent(script: Script) -> None:
    with group("memory", 400 << 20) as procs:
        arguments, result, _ = script.run(MANY, str(procs)).split("\n")
    limit = (
        r"it takes a message of 7\d{7} bytes, and the limit is 52428800, an eighth of its memory; "
    )
    assert re.match(
        rf"MemoryError the arguments of the task \(len\) are too large for node local0: {limit}",
        arguments,
    )
    assert re.match(
        rf"MemoryError the result of the task from node local0 is too large for the program: {limit}",
        result,
    )
