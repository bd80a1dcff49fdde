"""Leases on nodes: their time and their recorded use."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from gristmill import Lease, LeaseExpiredError, WorkerLostError
from gristmill._nodes.local import LocalNodes
from gristmill._nodes.pauses import Pauses

import calls
from stage import Gate, descent, lives

MakeLease = Callable[..., tuple[Lease, LocalNodes]]


@pytest.fixture
def make_lease() -> Iterator[MakeLease]:
    """Yields a function that takes leases on agents of this machine, which are released when the test ends."""
    made: list[Lease] = []

    def make(nodes: LocalNodes, **options: Any) -> tuple[Lease, LocalNodes]:
        made.append(Lease(nodes, **options))
        return made[-1], nodes

    yield make
    for lease in made:
        lease.shutdown(cancel_futures=True)


class HourNodes(LocalNodes):
    """Nodes that can be used for an hour."""

    options = ("--walltime", "3600")


def test_a_lease_has_what_it_asks_for(make_lease: MakeLease) -> None:
    lease, _ = make_lease(LocalNodes(2, 2), max_workers=1, memory="1GB", seconds=1000)
    lease.wait()
    while len(nodes := [node for node in lease.nodes() if node.ends_in_s is not None]) < 2:
        lease.submit(calls.nothing).result()
    assert [(node.granted_workers, node.memory) for node in nodes] == [(1, 10**9)] * 2
    assert all(node.ends_in_s == pytest.approx(1000, abs=200) for node in nodes)


class LateNodes(LocalNodes):
    """Nodes that a batch system starts when the test says so."""

    def start(self, address: str | None, key: str) -> None:
        self.let_come = lambda: super(LateNodes, self).start(address, key)


def test_the_time_of_a_lease_begins_when_it_is_granted(make_lease: MakeLease) -> None:
    lease, nodes = make_lease(LateNodes(1, 1), seconds=1000)
    lease.extend(500)
    waiting = lease.submit(os.getpid)
    assert lease.ends_in == 1500
    assert lease._timer is None, "nothing ends it"
    assert lease.use().workers_s == 0
    assert isinstance(nodes, LateNodes)
    nodes.let_come()
    assert waiting.result() != os.getpid()
    while lease._timer is None:
        pass  # the thread that waits for the grant sees it by itself
    ends_in = lease.ends_in
    assert ends_in is not None
    assert 0 < ends_in < 1500
    while (ends_at_node := lease.nodes()[0].ends_in_s) is None:
        lease.submit(calls.nothing).result()
    assert ends_at_node == pytest.approx(1500, abs=200)


def test_a_lease_that_is_never_granted_does_not_expire(make_lease: MakeLease) -> None:
    lease, _ = make_lease(LateNodes(1, 1), seconds=1e-9)
    waiting = lease.submit(os.getpid)
    assert lease.ends_in == 1e-9
    assert waiting.cancel(), "it was not failed"
    lease.release()


def test_extending_reaches_the_nodes(make_lease: MakeLease) -> None:
    lease, _ = make_lease(LocalNodes(1, 1), seconds=1000)
    lease.wait()
    lease.extend(1000)
    while lease.nodes()[0].ends_in_s != pytest.approx(2000, abs=200):
        lease.submit(calls.nothing).result()


def test_a_node_does_not_last_longer_than_its_own_time(make_lease: MakeLease) -> None:
    lease, _ = make_lease(HourNodes(1, 1), seconds=1000)
    lease.wait()
    lease.extend(5000)
    while (ends_in := lease.nodes()[0].ends_in_s) < 1500:
        lease.submit(calls.nothing).result()
    assert ends_in == pytest.approx(3600, abs=200)


def drain_and_extend(lease: Lease, gate: Gate, seconds: float) -> bool:
    """Limits a lease on one worker to ``seconds`` there, and extends it while it drains.

    Returns false if this program was too slow and the lease ended first.
    """
    while not any(node.connected and (node.ends_in_s or 0) > 100 for node in lease.nodes()):
        pass
    running = lease.submit(calls.enter, gate.path)
    worker = gate.wait_entered()
    waiting = lease.submit(os.getpid)
    lease._extend(seconds)
    while "gets no more" not in lease.explain(waiting) and not running.done():
        pass
    if not running.done():
        gate.open()
    has_finished = running.exception() is None
    stays_back = "gets no more" in lease.explain(waiting)
    lease.extend(1)
    has_run = waiting.exception() is None
    return has_finished and stays_back and has_run and waiting.result() == worker


def test_an_extension_lets_a_node_that_drains_take_tasks_again(
    make_lease: MakeLease, gate: Gate
) -> None:
    lease, _ = make_lease(LocalNodes(1, 1), seconds=1000)
    seconds = 1
    while not drain_and_extend(lease, gate, seconds):
        seconds *= 2


def test_the_end_of_a_lease_frees_the_node(make_lease: MakeLease, gate: Gate) -> None:
    lease, placement = make_lease(LocalNodes(1, 1), seconds=1000)
    future = lease.submit(calls.enter, gate.path)
    worker = gate.wait_entered()
    assert worker in descent(placement.agents[0].pid)
    assert lease.ends_in, "its time has begun"
    lease._ends_at = time.monotonic()
    lease._set_timer()
    with pytest.raises(LeaseExpiredError, match="the lease of 1000 s"):
        future.result()
    while lives(worker):
        pass


def test_what_was_held_is_counted_also_of_nodes_that_are_gone(
    make_lease: MakeLease, monkeypatch: pytest.MonkeyPatch, gate: Gate
) -> None:
    # The lost agent does not return.
    monkeypatch.setattr(
        "gristmill._nodes.supervised_process.Pauses", lambda: Pauses(1000.0, 1000.0)
    )
    lease, placement = make_lease(LocalNodes(1, 2), memory="2GB")
    lease.wait()
    held = lease.submit(calls.enter, gate.path)
    gate.wait_entered()
    first = lease.use()
    placement.agents[0].kill()
    with pytest.raises(WorkerLostError):
        held.result()
    assert not lease.nodes()
    use = lease.use()
    assert use.workers_s > first.workers_s
    assert use.allocation_gb_s == pytest.approx(use.workers_s)
    assert use.hot + use.warm + use.cold == 1
