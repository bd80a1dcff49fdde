"""One large argument for eight nodes over narrow links: a broadcast from node to node is faster than sending from the
program alone.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from cluster import Cluster
from placing import surroundings, write_shell

PROGRAM = Path(__file__).with_name("spreading.py")
#: Nodes, and bytes of the argument. The program runs on a node of its own, whose link is as narrow as the others.
COUNT, SIZE = 8, 16 << 20
RATE = 200e6 / 8


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    """Yields a cluster of eight nodes and one for the program."""
    with Cluster(nodes=COUNT + 1) as made:
        for node in made.nodes:
            node.limit("200mbit")
        yield made


@pytest.fixture(scope="module")
def shell(cluster: Cluster) -> str:
    """Returns a program that is called as ``ssh`` is."""
    return write_shell(cluster)


def spread(cluster: Cluster, shell: str, fanout: int, topology: str) -> dict[str, float]:
    """Runs the program; returns the numbers that it printed."""
    *nodes, program = cluster.nodes
    words = [sys.executable, str(PROGRAM), shell, str(fanout), topology, str(SIZE)]
    started = program.start(
        [*words, *(node.name for node in nodes)],
        env=surroundings({}),
        cwd=cluster.shared,
        stdout=subprocess.PIPE,
    )
    printed, _ = started.communicate()
    print(topology, fanout, printed)
    assert started.wait() == 0
    found: dict[str, float] = json.loads(printed.splitlines()[-1])
    return found


def test_from_node_to_node_it_is_there_sooner_than_one_after_the_other(
    cluster: Cluster, shell: str
) -> None:
    tree = spread(cluster, shell, 2, "peers")
    assert (tree["named"], tree["given"], tree["fetched"]) == (COUNT * SIZE, 2 * SIZE, 6 * SIZE)
    one_by_one = spread(cluster, shell, 1, "client")
    assert (one_by_one["given"], one_by_one["fetched"]) == (COUNT * SIZE, 0)
    assert one_by_one["elapsed_s"] > 0.9 * COUNT * SIZE / RATE, "links are narrow"
    assert one_by_one["elapsed_s"] > tree["elapsed_s"]
    chain = spread(cluster, shell, 1, "peers")
    assert (chain["given"], chain["fetched"]) == (SIZE, 7 * SIZE)
    assert one_by_one["elapsed_s"] > chain["elapsed_s"]
