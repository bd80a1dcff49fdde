"""Timings: the time at which a task crossed each border between components."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Callable

import pytest

from gristmill import Executor, Timings

import calls
from stage import Gate

BORDERS = ["submitted", "written", "claimed", "started", "ended", "published", "drained"]


def times_of(timings: Timings) -> list[int]:
    """Returns the times of all borders; fails if one is missing."""
    times = [getattr(timings, border) for border in BORDERS]
    assert all(type(time) is int for time in times), timings
    return times


def test_a_task_has_all_its_times_in_order(shared: Executor) -> None:
    future = shared.submit(calls.nothing)
    future.result()
    timings = future.timings()
    assert timings.worker_state in ("hot", "warm", "cold")
    assert timings.submitted == 0
    assert times_of(timings) == sorted(times_of(timings))


def test_timings_are_a_frozen_dataclass_of_the_borders_and_the_worker_state(
    shared: Executor,
) -> None:
    future = shared.submit(calls.nothing)
    future.result()
    timings = future.timings()
    assert type(timings) is Timings
    assert list(dataclasses.asdict(timings)) == [*BORDERS, "worker_state"]
    with pytest.raises(dataclasses.FrozenInstanceError):
        timings.started = 0  # type: ignore[misc]


def test_times_are_in_order_where_many_are_read_at_once(shared: Executor) -> None:
    futures = shared.submit_many(calls.same, range(3_000))
    for future in futures:
        future.result()
        times = times_of(future.timings())
        assert times == sorted(times)


def test_every_task_of_a_chain_has_timings(shared: Executor) -> None:
    link = shared.submit(calls.add, 0)
    links = [link := shared.submit(calls.add, link, 1) for _ in range(100)]
    links[-1].result()
    assert all(times_of(future.timings()) for future in links)


def test_the_run_time_is_measured_where_it_ran(executor: Executor, gate: Gate) -> None:
    future = executor.submit(calls.enter, gate.path)
    gate.wait_entered()
    timings = future.timings()
    assert timings.written is not None
    assert timings.ended is None
    gate.open()
    future.result()
    written, _, started, ended, *_ = times_of(future.timings())[1:]
    assert written <= started < ended


def test_what_did_not_happen_is_none(make_executor: Callable[..., Executor], gate: Gate) -> None:
    executor = make_executor(1)
    executor.submit(calls.enter, gate.path)
    gate.wait_entered()
    waiting = [executor.submit(calls.nothing) for _ in range(20)]
    assert waiting[-1].cancel()
    assert waiting[-1].timings().started is None
    lost = executor.submit(os._exit, 1)
    gate.open()
    lost.exception()
    assert lost.timings().ended is None


def test_failed_tasks_have_timings_too(shared: Executor) -> None:
    future = shared.submit(calls.fail)
    future.exception()
    timings = future.timings()
    assert times_of(timings)
    assert timings.worker_state is not None
