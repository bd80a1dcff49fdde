"""Requests for more workers, memory or GPUs than a node has: executors accept less, leases need the exact amount."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from gristmill import Executor, Lease, StartError, on
from gristmill._nodes.local import LocalNodes

import calls

MakeNodes = Callable[..., tuple[Executor, LocalNodes]]


class SmallNodes(LocalNodes):
    """Nodes that offer a gigabyte and a GPU."""

    options = ("--memory", "1", "--gpus", "1")


def test_an_executor_gets_what_a_node_has_of_what_it_asks_for(make_nodes: MakeNodes) -> None:
    wish = {"max_workers": 8, "memory": "64GB", "gpus": 3}
    executor, _ = make_nodes(1, 2, kind=SmallNodes, **wish)
    assert executor.submit(calls.same, 1).result() == 1
    (node,) = executor.nodes()
    assert (node.granted_workers, node.memory) == (2, 10**9)
    assert executor.options(gpus=1, memory="1GB").submit(calls.seen_gpus).result() == "0"


@pytest.mark.parametrize(
    ("wish", "why"),
    [
        ({"max_workers": 8}, "the client requests 8 workers, and this node has 2"),
        (
            {"memory": "64GB"},
            "the client requests 64000000000 bytes of memory, and this node has 10{9}",
        ),
        ({"gpus": 2}, "the client requests 2 GPUs, and this node has 1"),
    ],
)
def test_a_lease_of_more_than_any_node_has_says_so_at_once(
    wish: dict[str, object], why: str
) -> None:
    placement = SmallNodes(2, 2)
    with Lease(placement, **wish) as lease:  # type: ignore[arg-type]
        with pytest.raises(StartError, match=f"local0: {why}"):
            lease.wait()
        with pytest.raises(StartError, match=f"local1: {why}"):
            lease.submit(calls.nothing)
        for agent in placement.agents:
            agent.wait()  # the lease does not need them, so they end


def test_a_lease_waits_for_what_others_have_and_says_so(
    keys: tuple[str, str], start_node: Callable[..., str]
) -> None:
    client, node = keys
    nodes = on.hosts(start_node(node, "--workers", "1"), key=client)
    with Lease(nodes, max_workers=1) as first:
        first.wait()
        with Lease(on.hosts(*nodes.dial, key=client)) as second:
            why = ""
            while "0 of 1 are free: other clients have the rest" not in why:
                with pytest.raises(
                    TimeoutError, match=r"the lease has no worker after 0\.05 s: "
                ) as caught:
                    second.wait(0.05)
                why = str(caught.value)
            first.release()
            second.wait()
