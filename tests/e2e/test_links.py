"""Narrow, slow, lossy and cut links, and the traffic that passes them."""

from __future__ import annotations

import hashlib
import random
import sys
import time

from cluster import Cluster, until
from talk import connect, listening, resent, unanswered

_DATA = random.Random(1).randbytes(4 << 20)
_EXPECTED = f"{len(_DATA)} {hashlib.sha256(_DATA).hexdigest()}\n"


def test_a_link_can_be_narrowed_in_each_direction_and_counts_its_bytes(cluster: Cluster) -> None:
    one, other = cluster.nodes
    one.limit("100mbit")
    for sender, receiver in [(cluster.login, one), (one, other)]:
        before = one.traffic()
        program = f"import socket; socket.create_connection(({receiver.name!r}, 7777)).sendall(bytes({len(_DATA)}))"
        begin = time.monotonic()
        with listening(receiver, "sink") as process:
            sender.run([sys.executable, "-c", program])
            assert process.communicate()[0].startswith(f"{len(_DATA)} ")
        # A full token bucket passes at once; the remaining bytes wait for the rate.
        assert time.monotonic() - begin > (len(_DATA) - 256 * 1024) * 8 / 100e6
        after = one.traffic()
        passed = after.sent - before.sent if sender is one else after.received - before.received
        assert len(_DATA) < passed < 1.5 * len(_DATA)
    one.limit(None)


def test_a_partition_stalls_a_stream_and_loses_nothing_of_it(cluster: Cluster) -> None:
    node = cluster.nodes[0]
    with listening(node, "sink") as process:
        with connect(node) as connection:
            half = len(_DATA) // 2
            connection.sendall(_DATA[:half])
            node.partition()
            sent = half + connection.send(_DATA[half : half + 1000])
            until(lambda: unanswered(connection) >= 2)
            node.heal()
            connection.sendall(_DATA[sent:])
        assert process.communicate()[0] == _EXPECTED


def test_a_partition_that_begins_with_a_delay_lasts_until_it_is_healed(cluster: Cluster) -> None:
    node = cluster.nodes[0]
    with listening(node, "echo"), connect(node) as connection:
        node.partition()
        node.delay(1)
        connection.sendall(b"late")
        until(lambda: unanswered(connection) >= 1)
        node.heal()
        assert connection.recv(4) == b"late"


def test_a_delayed_link_holds_packets_in_each_direction(cluster: Cluster) -> None:
    node = cluster.nodes[0]
    node.delay(20)
    with listening(node, "echo"), connect(node) as connection:
        begin = time.monotonic()
        connection.sendall(b"there")
        assert connection.recv(5) == b"there"
        assert time.monotonic() - begin > 0.04


def test_a_stream_over_a_lossy_link_is_whole(cluster: Cluster) -> None:
    node = cluster.nodes[0]
    node.delay(1, loss=0.05)
    with listening(node, "sink") as process:
        with connect(node) as connection:
            connection.sendall(_DATA)
            until(lambda: resent(connection) > 0)
        assert process.communicate()[0] == _EXPECTED
