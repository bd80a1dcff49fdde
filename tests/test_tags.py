"""Tags: when a task crossed which border."""

from __future__ import annotations

import os
from collections.abc import Callable

from gristmill import Executor

import calls
from stage import Gate

BORDERS = ["submitted", "written", "claimed", "started", "ended", "published", "drained"]


def test_a_task_has_all_its_times_in_order(shared: Executor) -> None:
    future = shared.submit(calls.nothing)
    future.result()
    tags = future.tags()
    assert tags.pop("temperature") in ("hot", "warm", "cold")
    assert list(tags) == BORDERS
    assert tags["submitted"] == 0
    assert all(isinstance(time, int) for time in tags.values())
    assert [tags[border] for border in BORDERS] == sorted(tags.values())


def test_times_are_in_order_where_many_are_read_at_once(shared: Executor) -> None:
    futures = shared.submit_many(calls.same, range(3_000))
    for future in futures:
        future.result()
        times = [future.tags()[border] for border in BORDERS]
        assert times == sorted(times)


def test_every_task_of_a_chain_has_tags(shared: Executor) -> None:
    link = shared.submit(calls.add, 0)
    links = [link := shared.submit(calls.add, link, 1) for _ in range(100)]
    links[-1].result()
    assert all(list(future.tags()) == [*BORDERS, "temperature"] for future in links)


def test_the_run_time_is_measured_where_it_ran(executor: Executor, gate: Gate) -> None:
    future = executor.submit(calls.enter, gate.path)
    gate.wait_entered()
    tags = future.tags()
    assert "written" in tags
    assert "ended" not in tags
    gate.open()
    future.result()
    assert future.tags()["ended"] > future.tags()["started"]


def test_what_did_not_happen_is_missing(make_executor: Callable[..., Executor], gate: Gate) -> None:
    executor = make_executor(1)
    executor.submit(calls.enter, gate.path)
    gate.wait_entered()
    waiting = [executor.submit(calls.nothing) for _ in range(20)]
    assert waiting[-1].cancel()
    assert "started" not in waiting[-1].tags()
    lost = executor.submit(os._exit, 1)
    gate.open()
    lost.exception()
    assert "ended" not in lost.tags()


def test_failed_tasks_have_tags_too(shared: Executor) -> None:
    future = shared.submit(calls.fail)
    future.exception()
    assert list(future.tags()) == [*BORDERS, "temperature"]
