"""Our engine over narrow links: a long transfer does not count as silence."""

from __future__ import annotations

import sys

from cluster import Cluster
from cluster.agents import agents

#: At 16 Mbit/s this takes four seconds; a node that is silent for two is lost.
_RATE, _SIZE = "16mbit", 8_000_000
_PROGRAM = f"""
import sys
from gristmill import Executor, on

with Executor(nodes=on.hosts(sys.argv[2], key=sys.argv[1])) as executor:
    print(executor.submit(len, bytes({_SIZE})).result(), len(executor.submit(bytes, {_SIZE}).result()))
"""


def test_a_node_is_there_while_a_large_argument_or_result_is_under_way(cluster: Cluster) -> None:
    cluster.limit(_RATE)
    with agents(cluster) as (addresses, key):
        program = [sys.executable, "-c", _PROGRAM, str(key), str(addresses[0])]
        assert cluster.login.run(program).stdout.split() == [str(_SIZE)] * 2
