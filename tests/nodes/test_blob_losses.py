"""Nodes that are lost while they give a large argument to others: these get the rest elsewhere, and nothing twice."""

from __future__ import annotations

import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from gristmill import Executor, on
from gristmill._nodes.local import LocalNodes

import calls

MakeNodes = Callable[..., tuple[Executor, LocalNodes]]

#: Bytes of an argument: enough to be under way for a while.
SIZE = 256 << 20
#: What is given at a time.
PIECE = 128 << 10


def bytes_of_nodes(executor: Executor) -> dict[str, dict[str, int]]:
    return {node["name"]: node["blob_bytes"] for node in executor._nodes()}


def wait_until_given(executor: Executor, count: int) -> str:
    """Looks until the program has given so many bytes to one node; the name of that."""
    while True:
        for name, moved in bytes_of_nodes(executor).items():
            if moved["given"] >= count:
                return name


@contextmanager
def frozen(agent: subprocess.Popen[bytes]) -> Iterator[None]:
    """Stops an agent for a while, or for good if it is killed meanwhile."""
    agent.send_signal(signal.SIGSTOP)
    yield
    agent.send_signal(signal.SIGCONT)


def test_a_node_whose_giver_dies_amid_an_argument_gets_the_rest_elsewhere(
    make_nodes: MakeNodes,
) -> None:
    executor, placement = make_nodes(2, 1, blobs=on.Blobs(fanout=1))
    while sum(node["connected"] for node in executor._nodes()) < 2:
        executor.submit(calls.nothing).result()
    argument = bytes(SIZE)
    submit = executor.options(loss_retries=1).submit
    futures = [submit(len, argument) for _ in range(2)]
    name = wait_until_given(executor, SIZE // 8)
    giver = placement.agents[int(name.removeprefix("local"))]
    with frozen(giver):
        # The other one has been told where to fetch it before there is more to fetch.
        while not any(f"from node {name}" in executor.explain(future) for future in futures):
            pass
    for part in (2, 3, 4, 5):
        # While it stands still the other one's side of their conversation goes on.
        assert wait_until_given(executor, part * SIZE // 8) == name
        with frozen(giver):
            time.sleep(0.05)
    with frozen(giver):
        assert bytes_of_nodes(executor)[name]["given"] < SIZE, "it is amid the argument"
        giver.kill()
        giver.wait()
        assert [future.result() for future in futures] == [SIZE, SIZE]
    (taker,) = (moved for other, moved in bytes_of_nodes(executor).items() if other != name)
    assert taker["given"] > 0
    assert taker["fetched"] > 0
    assert SIZE <= taker["given"] + taker["fetched"] <= SIZE + 2 * PIECE
