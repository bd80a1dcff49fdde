"""Large arguments on nodes: each is sent to a node once, nodes send it to each other, and wrong bytes reach no task."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest

import gristmill.parsl as parsl
from gristmill import Executor, GristmillError, array, on
from gristmill._nodes.local import LocalNodes

import calls
from blobs import counts, spilled
from stage import Gate, wait_for_nodes

pytestmark = pytest.mark.slow

numpy = pytest.importorskip("numpy")

MakeNodes = Callable[..., tuple[Executor, LocalNodes]]

#: Size of an argument, bytes.
SIZE = 16 << 20


def content(seed: int = 0, size: int = SIZE) -> numpy.ndarray:
    """Returns bytes that differ for each seed."""
    made: numpy.ndarray = numpy.random.default_rng(seed).integers(0, 256, size, dtype=numpy.uint8)
    return made


def run_everywhere(executor: Executor, gate: Gate, count: int, argument: numpy.ndarray) -> None:
    """Runs as many tasks with the argument at the same time as there are workers."""
    wait_for_nodes(executor, count)
    futures = [executor.submit(calls.enter, gate.path, argument) for _ in range(count)]
    for _ in futures:
        gate.wait_entered()
    gate.open(count)
    for future in futures:
        assert numpy.array_equal(future.result(), argument)


def test_an_argument_leaves_the_program_once_however_many_nodes_need_it(
    make_nodes: MakeNodes, gate: Gate
) -> None:
    executor, _ = make_nodes(4, 1, blobs=on.Blobs(fanout=1))
    run_everywhere(executor, gate, 4, content())
    expected = {"named": 4 * SIZE, "given": SIZE, "fetched": 3 * SIZE, "passed_on": 3 * SIZE}
    assert counts(executor) == {**expected, "saved": 3 * SIZE}
    nodes = executor.nodes()
    assert sorted(node.blob_bytes_given for node in nodes) == [0, 0, 0, SIZE]
    assert sorted(node.blob_bytes_fetched for node in nodes) == [0, SIZE, SIZE, SIZE]


def test_as_many_nodes_as_are_allowed_get_it_from_the_program(
    make_nodes: MakeNodes, gate: Gate
) -> None:
    executor, _ = make_nodes(4, 1)
    run_everywhere(executor, gate, 4, content())
    found = counts(executor)
    assert SIZE <= found["given"] <= 2 * SIZE
    assert found["given"] + found["fetched"] == 4 * SIZE


def test_nodes_that_need_it_again_have_it(make_nodes: MakeNodes, gate: Gate) -> None:
    executor, _ = make_nodes(2, 1)
    run_everywhere(executor, gate, 2, content())
    before = counts(executor)
    run_everywhere(executor, gate, 2, content())
    after = counts(executor)
    assert after["named"] == before["named"] + 2 * SIZE
    assert (after["given"], after["fetched"]) == (before["given"], before["fetched"])


def test_tasks_go_where_their_argument_is(make_nodes: MakeNodes) -> None:
    executor, _ = make_nodes(2, 1)
    wait_for_nodes(executor, 2)
    argument = content(size=4 << 20)
    pids = {executor.submit(calls.pid, argument).result() for _ in range(20)}
    assert len(pids) == 1
    found = counts(executor)
    assert found == {
        "named": 20 * argument.nbytes,
        "given": argument.nbytes,
        "fetched": 0,
        "passed_on": 0,
        "saved": 19 * argument.nbytes,
    }


def test_only_the_program_gives_if_that_is_wanted(make_nodes: MakeNodes, gate: Gate) -> None:
    executor, _ = make_nodes(3, 1, blobs=on.Blobs(topology="client"))
    run_everywhere(executor, gate, 3, content())
    found = counts(executor)
    assert (found["given"], found["fetched"]) == (3 * SIZE, 0)


def test_apps_have_the_settings_of_their_executor(tmp_path: Path, gate: Gate) -> None:
    executor = parsl.GristmillExecutor(nodes=LocalNodes(2, 1), blobs=on.Blobs(topology="client"))
    with parsl.load(parsl.Config(executors=[executor], run_dir=str(tmp_path / "runs"))):
        assert parsl.python_app(calls.nothing)().result() is None
        engine = executor._engine
        assert engine is not None
        run_everywhere(engine, gate, 2, content())
        found = counts(engine)
    assert (found["given"], found["fetched"]) == (2 * SIZE, 0)


class Grouped(LocalNodes):
    """Nodes of one group."""

    options = ("--group", "rack")


def test_a_group_gets_it_once_from_elsewhere(make_nodes: MakeNodes, gate: Gate) -> None:
    executor, _ = make_nodes(3, 1, kind=Grouped, blobs=on.Blobs(topology="groups"))
    run_everywhere(executor, gate, 3, content())
    found = counts(executor)
    assert (found["given"], found["fetched"]) == (SIZE, 2 * SIZE)


def test_an_argument_that_was_changed_before_it_was_sent_reaches_no_task(
    make_nodes: MakeNodes,
) -> None:
    executor, _ = make_nodes(1, 1)
    shared = array(SIZE, numpy.uint8, executor=executor)
    shared[...] = content()
    refused = executor.options(views=True).submit(calls.same, shared)
    shared[0] ^= 1
    with pytest.raises(GristmillError, match="was changed after its task was submitted"):
        refused.result()
    again = executor.options(views=True).submit(numpy.sum, shared)
    assert again.result() == shared.sum()


def test_what_is_above_the_limit_goes_to_disk_and_comes_back(make_nodes: MakeNodes) -> None:
    blobs = on.Blobs(memory=SIZE, disk=4 * SIZE)
    executor, placement = make_nodes(1, 1, blobs=blobs)
    for seed in (0, 1, 2):
        assert executor.submit(numpy.sum, content(seed)).result() == content(seed).sum()
    while not spilled(placement):
        executor.submit(calls.nothing).result()
    for seed in (0, 1, 2):
        assert executor.submit(numpy.sum, content(seed)).result() == content(seed).sum()
    assert counts(executor)["given"] == 3 * SIZE


def test_without_a_disk_it_is_given_again(make_nodes: MakeNodes) -> None:
    executor, placement = make_nodes(1, 1, blobs=on.Blobs(memory=0, disk=0))
    given = 0
    # A blob that no task uses is dropped within a second.
    while given < 2 * SIZE:
        assert executor.submit(numpy.sum, content()).result() == content().sum()
        given = counts(executor)["given"]
    assert not spilled(placement)


def test_a_task_that_waits_for_its_argument_is_cancelled(make_nodes: MakeNodes) -> None:
    executor, _ = make_nodes(1, 1)
    wait_for_nodes(executor, 1)
    futures = [executor.submit(calls.same, content(seed)) for seed in range(4)]
    cancelled = [future.cancel() for future in futures]
    for future, was_cancelled in zip(futures, cancelled, strict=True):
        assert future.cancelled() == was_cancelled
    assert executor.submit(calls.same, 1).result() == 1


def test_a_task_says_how_much_of_its_argument_has_left(make_nodes: MakeNodes) -> None:
    executor, _ = make_nodes(1, 1)
    wait_for_nodes(executor, 1)
    size = 8 * SIZE
    future = executor.submit(len, bytes(size))
    said = set()
    while not future.done():
        said.add(executor.explain(future))
    assert future.result() == size
    left = [re.search(rf"has sent (\d+) of {size} bytes of an argument", text) for text in said]
    assert any(0 < int(found[1]) <= size for found in left if found), said


def test_results_of_large_arguments_go_on_to_dependants(make_nodes: MakeNodes) -> None:
    executor, _ = make_nodes(2, 1)
    argument = content()
    parents = [executor.submit(numpy.add, argument, number) for number in range(3)]
    total = executor.submit(calls.total, parents)
    expected = sum(numpy.add(argument, number) for number in range(3))
    assert numpy.array_equal(total.result(), expected)


@pytest.mark.parametrize(
    ("settings", "text"),
    [
        ({"fanout": 0}, "fanout must be between 1 and 65535, not 0"),
        ({"topology": "star"}, 'topology must be "client", "peers" or "groups", not .star'),
        ({"memory": -1}, "memory must be between 0 and"),
        ({"disk": -1}, "disk must be between 0 and"),
    ],
)
def test_settings_are_checked_where_they_are_made(settings: dict[str, object], text: str) -> None:
    with pytest.raises(ValueError, match=text):
        on.Blobs(**settings)  # type: ignore[arg-type]


def test_settings_without_nodes_are_refused() -> None:
    with pytest.raises(ValueError, match="blobs needs an executor with nodes"):
        Executor(blobs=on.Blobs())
