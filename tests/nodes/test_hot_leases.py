"""The time for which workers of a lease poll for tasks before they sleep, on this machine and on a node.

The tests observe a worker from outside: a polling worker uses its core, a sleeping worker does not.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from gristmill import Lease, _native
from gristmill._nodes.local import LocalNodes

import calls
from stage import Gate

pytestmark = pytest.mark.skipif(
    _native.cpu_count() < 2, reason="on one core no worker looks for tasks"
)

MakeLease = Callable[..., Lease]
PLACES = pytest.mark.parametrize("on_node", [False, True], ids=["here", "node"])


@pytest.fixture
def make_lease() -> Iterator[MakeLease]:
    """Yields a function that takes leases on one worker, which are released when the test ends."""
    made: list[Lease] = []

    def make(on_node: bool, **options: Any) -> Lease:
        nodes = LocalNodes(1, 1) if on_node else None
        made.append(Lease(nodes, max_workers=1, **options))
        return made[-1]

    yield make
    for lease in made:
        lease.shutdown(cancel_futures=True)


def state(process: int) -> tuple[str, int]:
    """Returns the kernel's state of a process, and the time that the process has used a core, in clock ticks."""
    fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    return fields[0], int(fields[11]) + int(fields[12])


def wait_used(process: int, ticks: int) -> None:
    """Waits until a process has used a core for this many more ticks; the watchdog ends the wait if it sleeps."""
    until = state(process)[1] + ticks
    while state(process)[1] < until:
        time.sleep(0.001)


def wait_asleep(process: int) -> None:
    while state(process)[0] != "S":
        time.sleep(0.001)


def worker_state(lease: Lease) -> str:
    future = lease.submit(calls.nothing)
    future.result()
    return str(future.timings().worker_state)


@PLACES
def test_a_worker_stays_hot_for_as_long_as_it_is_told(make_lease: MakeLease, on_node: bool) -> None:
    lease = make_lease(on_node, spin_seconds=1000)
    worker = lease.submit(os.getpid).result()
    # These times are longer than any poll that a worker learns, and longer than its sleep between full checks.
    for ticks in (5, 60):
        wait_used(worker, ticks)
        assert worker_state(lease) == "hot"


@PLACES
def test_a_worker_that_is_never_to_be_hot_sleeps(make_lease: MakeLease, on_node: bool) -> None:
    lease = make_lease(on_node, spin_seconds=0)
    worker = lease.submit(os.getpid).result()
    for _ in range(3):
        wait_asleep(worker)
        assert worker_state(lease) == "warm"


@PLACES
def test_workers_learn_from_the_gaps_between_tasks(make_lease: MakeLease, on_node: bool) -> None:
    lease = make_lease(on_node)
    worker = lease.submit(os.getpid).result()
    row = 0
    while row < 5:  # a gap that is far longer than a worker's first polls
        began = time.monotonic()
        while time.monotonic() < began + 0.001:
            pass
        row = row + 1 if worker_state(lease) == "hot" else 0
    wait_asleep(worker)
    assert worker_state(lease) == "warm", "not for ever"


@PLACES
def test_how_long_tasks_ran_is_counted(make_lease: MakeLease, on_node: bool, gate: Gate) -> None:
    lease = make_lease(on_node)
    running = lease.submit(calls.enter, gate.path)
    gate.wait_entered()
    began = time.monotonic()
    while time.monotonic() < began + 0.01:
        pass
    held_s = time.monotonic() - began
    gate.open()
    running.result()
    use = lease.use()
    assert held_s <= use.busy_s < use.workers_s
