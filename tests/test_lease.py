"""Leases: workers, memory and GPUs for a time."""

from __future__ import annotations

import itertools
import time
import weakref
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from gristmill import Executor, Lease, LeaseExpired, ResourceError, _lease

import calls
from stage import Gate, lives

MakeLease = Callable[..., Lease]


@pytest.fixture
def make_lease() -> Iterator[MakeLease]:
    """Makes leases, which are released when the test ends."""
    made: list[Lease] = []

    def make(*arguments: Any, **options: Any) -> Lease:
        made.append(Lease(*arguments, **options))
        return made[-1]

    yield make
    for lease in made:
        lease.shutdown(cancel_futures=True)


def let_end(lease: Lease) -> None:
    """Lets the time of a lease be over now."""
    lease._ends_at = time.monotonic()
    lease._set_timer()


def test_a_lease_is_an_executor_that_has_started(make_lease: MakeLease) -> None:
    with make_lease(workers=2, gpus=1) as lease:
        assert isinstance(lease, Executor)
        lease.wait()
        assert list(lease.map(calls.same, range(100))) == list(range(100))
        assert lease.options(gpus=1).submit(calls.seen_gpus).result() == "0"
        with pytest.raises(ResourceError):
            lease.options(gpus=2).submit(calls.nothing)
        assert lease.ends_in is None


def test_the_end_of_a_lease_ends_what_runs(make_lease: MakeLease, gate: Gate) -> None:
    lease = make_lease(workers=1, seconds=1000)
    running = lease.submit(calls.enter, gate.path)
    worker = gate.wait_entered()
    waiting = lease.submit(calls.nothing)
    let_end(lease)
    for future in (running, waiting):
        with pytest.raises(LeaseExpired, match="the lease is over, which was for 1000 s"):
            future.result()
    while lives(worker):
        pass
    with pytest.raises(LeaseExpired, match="extend it before"):
        lease.submit(calls.nothing)
    with pytest.raises(LeaseExpired):
        lease.extend(1)
    assert lease.ends_in == 0


def test_a_lease_can_last_longer(make_lease: MakeLease) -> None:
    lease = make_lease(workers=1, seconds=1000)
    lease.extend(1000)
    ends_in = lease.ends_in
    assert ends_in is not None
    assert 1800 < ends_in <= 2000
    _lease._end(weakref.ref(lease))  # as a timer that was too late to be stopped
    assert lease.submit(calls.same, 1).result() == 1


def test_a_lease_that_is_over_lets_go_of_everything() -> None:
    lease = Lease(workers=1, seconds=0.2)
    while lease.ends_in:
        pass
    with pytest.raises(LeaseExpired):
        list(lease.map(calls.same, itertools.count()))
    lease.release()


def test_what_a_lease_was_used_for_is_told(make_lease: MakeLease) -> None:
    lease = make_lease(workers=2, memory="4GB")
    assert list(lease.map(calls.same, range(1000))) == list(range(1000))
    use = lease.use()
    assert use.hot + use.warm + use.cold == 1000
    assert 0 < use.busy_s < use.workers_s
    assert use.allocation_gb_s == pytest.approx(use.workers_s / 2 * 4)


@pytest.mark.parametrize("hot", [0, 0.001])
def test_how_long_workers_stay_hot_can_be_set(make_lease: MakeLease, hot: float) -> None:
    lease = make_lease(workers=1, hot=hot)
    assert [lease.submit(calls.same, number).result() for number in range(20)] == list(range(20))


@pytest.mark.parametrize(
    "wrong", [{"seconds": 0}, {"seconds": float("nan")}, {"hot": -1}, {"workers": 0}]
)
def test_leases_that_cannot_be(wrong: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="must be"):
        Lease(**wrong)


def test_a_lease_without_an_end_cannot_last_longer(make_lease: MakeLease) -> None:
    with pytest.raises(ValueError, match="has no end"):
        make_lease(workers=1).extend(5)
