"""Leases: workers, memory and GPUs for a limited time."""

from __future__ import annotations

import itertools
import time
import weakref
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from gristmill import Executor, Lease, LeaseExpiredError, ResourceError, _lease, _native, _resources
from interrupted import at_each_place

import calls
from stage import Gate, lives

MakeLease = Callable[..., Lease]


@pytest.fixture
def make_lease() -> Iterator[MakeLease]:
    """Yields a function that makes leases, which are released when the test ends."""
    made: list[Lease] = []

    def make(*arguments: Any, **options: Any) -> Lease:
        made.append(Lease(*arguments, **options))
        return made[-1]

    yield make
    for lease in made:
        lease.shutdown(cancel_futures=True)


def let_end(lease: Lease) -> None:
    """Ends the time of a lease now."""
    lease._ends_at = time.monotonic()
    lease._set_timer()


def test_a_released_lease_uses_nothing_more(
    make_lease: MakeLease, monkeypatch: pytest.MonkeyPatch
) -> None:
    lease = make_lease(max_workers=1, memory=1 << 30)
    assert lease.submit(abs, -1).result() == 1
    lease.release()
    used = lease.use()
    clock = time.monotonic
    monkeypatch.setattr(_lease.time, "monotonic", lambda: clock() + 1000)
    assert lease.use() == used
    lease.release()
    assert lease.use() == used


def test_a_lease_is_an_executor_that_has_started(
    make_lease: MakeLease, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "0")
    with make_lease(max_workers=2, gpus=1) as lease:
        assert isinstance(lease, Executor)
        lease.wait()
        assert list(lease.map(calls.same, range(100))) == list(range(100))
        assert lease.options(gpus=1).submit(calls.seen_gpus).result() == "0"
        with pytest.raises(ResourceError):
            lease.options(gpus=2).submit(calls.nothing)
        assert lease.ends_in is None


def test_the_end_of_a_lease_ends_what_runs(make_lease: MakeLease, gate: Gate) -> None:
    lease = make_lease(max_workers=1, seconds=1000)
    running = lease.submit(calls.enter, gate.path)
    worker = gate.wait_entered()
    waiting = lease.submit(calls.nothing)
    let_end(lease)
    for future in (running, waiting):
        with pytest.raises(LeaseExpiredError, match="the lease of 1000 s"):
            future.result()
    while lives(worker):
        pass
    with pytest.raises(LeaseExpiredError, match="extend it earlier"):
        lease.submit(calls.nothing)
    with pytest.raises(LeaseExpiredError):
        lease.extend(1)
    assert lease.ends_in == 0


def test_a_lease_can_last_longer(make_lease: MakeLease) -> None:
    lease = make_lease(max_workers=1, seconds=1000)
    lease.extend(1000)
    ends_in = lease.ends_in
    assert ends_in is not None
    assert 1800 < ends_in <= 2000
    _lease._end(weakref.ref(lease))  # as a timer that was stopped too late
    assert lease.submit(calls.same, 1).result() == 1


def test_a_lease_that_is_over_lets_go_of_everything() -> None:
    lease = Lease(max_workers=1, seconds=0.2)
    while lease.ends_in:
        pass
    with pytest.raises(LeaseExpiredError):
        list(lease.map(calls.same, itertools.count()))
    lease.release()


def test_what_a_lease_was_used_for_is_told(make_lease: MakeLease) -> None:
    lease = make_lease(max_workers=2, memory="4GB")
    assert list(lease.map(calls.same, range(1000))) == list(range(1000))
    use = lease.use()
    assert use.hot + use.warm + use.cold == 1000
    assert 0 < use.busy_s < use.workers_s
    assert use.allocation_gb_s == pytest.approx(use.workers_s / 2 * 4)


@pytest.mark.parametrize("spin_seconds", [0, 0.001])
def test_how_long_workers_stay_hot_can_be_set(make_lease: MakeLease, spin_seconds: float) -> None:
    lease = make_lease(max_workers=1, spin_seconds=spin_seconds)
    assert [lease.submit(calls.same, number).result() for number in range(20)] == list(range(20))


@pytest.mark.parametrize(
    "wrong", [{"seconds": 0}, {"seconds": float("nan")}, {"spin_seconds": -1}, {"max_workers": 0}]
)
def test_leases_that_cannot_be(wrong: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="must be"):
        Lease(**wrong)


@pytest.mark.parametrize(
    ("asked", "shortage"),
    [
        ({"max_workers": 500}, r"max_workers=500, and this program may use \d+ core"),
        (
            {"max_workers": 1, "memory": "1000TB"},
            r"memory='1000TB', and this program may use [\d,]+ bytes",
        ),
        (
            {"max_workers": 1, "memory": 10**15},
            r"memory=1000000000000000, and this program may use",
        ),
        ({"max_workers": 1, "gpus": 2}, "gpus=2, and this program sees 1 GPU"),
        ({"gpus": 2, "memory": "1000TB"}, r"memory=.*; gpus=2"),
    ],
)
def test_a_lease_of_more_than_this_machine_has_is_refused_at_once(
    asked: dict[str, Any], shortage: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "7")
    with pytest.raises(ResourceError, match=f"more than this machine has: {shortage}"):
        Lease(**asked)


def test_a_lease_of_all_that_this_machine_has_is_given(make_lease: MakeLease) -> None:
    lease = make_lease(
        max_workers=_native.cpu_count(),
        memory=_resources.memory_size(),
        gpus=_resources.gpu_count(),
    )
    lease.wait()


def test_a_lease_without_an_end_cannot_last_longer(make_lease: MakeLease) -> None:
    with pytest.raises(ValueError, match="has no end"):
        make_lease(max_workers=1).extend(5)


@pytest.mark.long
def test_a_handler_of_a_signal_may_extend_a_lease_that_is_just_extended() -> None:
    leases: list[Lease] = []
    hour_s, minute_s = 3600.0, 60.0

    def take() -> Lease:
        leases.append(Lease(max_workers=1, seconds=hour_s))
        return leases[-1]

    count = at_each_place(
        _lease, take, lambda one: one.extend(hour_s), lambda one: one.extend(minute_s)
    )
    assert [one._seconds for one in leases] == [2 * hour_s + minute_s] * count + [2 * hour_s]
    for one in leases:
        assert one._ends_at == pytest.approx(one._taken_at + (one._seconds or 0))
        one.shutdown()
