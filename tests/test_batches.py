"""Short calls of a map travel several to a record; each of them stays a task of its own."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest

import gristmill

import calls
from stage import Gate

#: More than one batch for each worker.
COUNT = 400


def teach(executor: gristmill.Executor) -> None:
    """Lets the engine learn that ``act`` is short."""
    items = range(COUNT)
    assert list(executor.map(calls.act, ["same"] * COUNT, items)) == list(items)


def test_results_keep_their_order_whatever_their_sizes(executor: gristmill.Executor) -> None:
    teach(executor)
    sizes = [300_000 if place % 50 == 7 else place for place in range(COUNT)]
    found = executor.map(calls.act, ["block"] * COUNT, sizes)
    assert [len(block) for block in found] == sizes


def test_an_exception_belongs_to_its_item_and_the_others_go_on(
    executor: gristmill.Executor,
) -> None:
    teach(executor)
    names = ["fail" if place == 150 else "same" for place in range(COUNT)]
    results = executor.map(calls.act, names, range(COUNT))
    assert [next(results) for _ in range(150)] == list(range(150))
    with pytest.raises(ValueError, match="150"):
        next(results)
    assert list(results) == list(range(151, COUNT))


def test_a_crash_costs_its_item_alone_and_nothing_runs_twice(
    executor: gristmill.Executor, tmp_path: Path
) -> None:
    teach(executor)
    path = str(tmp_path / "runs")
    places = [str(place) for place in range(COUNT)]
    deadly = {"101", "102", "300"}
    names = ["leave" if place in deadly else "append" for place in places]
    arguments = [(7, "") if place in deadly else (path, place) for place in places]
    results = executor.map(calls.act, names, *zip(*arguments, strict=True), ordered=False)
    found: Counter[str] = Counter()
    losses: list[str] = []
    while True:
        try:
            found[next(results)] += 1
        except StopIteration:
            break
        except gristmill.WorkerLostError as error:
            losses.append(str(error))
    assert len(losses) == len(deadly)
    assert all("code 7" in loss for loss in losses)
    expected = Counter(place for place in places if place not in deadly)
    assert found == expected
    assert Counter(Path(path).read_text().split()) == expected


def test_a_map_stays_within_the_limit_when_some_results_of_a_batch_were_given(
    make_executor: Callable[..., gristmill.Executor], gate: Gate
) -> None:
    executor = make_executor(1, task_limit=5, when_full="raise")
    for _ in range(20):
        executor.submit(calls.act, "same", 0).result()
    names = ["enter" if place == 3 else "same" for place in range(20)]
    arguments = [gate.path if place == 3 else str(place) for place in range(20)]
    results = executor.map(calls.act, names, arguments, buffersize=5)
    assert [next(results) for _ in range(3)] == ["0", "1", "2"]
    gate.wait_entered()
    gate.open()
    assert list(results)[1:] == arguments[4:]


def test_what_waits_behind_a_long_call_is_run_by_others(
    executor: gristmill.Executor, gate: Gate
) -> None:
    teach(executor)
    names = ["enter" if place == 30 else "same" for place in range(COUNT)]
    arguments = [gate.path if place == 30 else str(place) for place in range(COUNT)]
    results = executor.map(calls.act, names, arguments, ordered=False)
    others = {next(results) for _ in range(COUNT - 1)}
    assert others == {str(place) for place in range(COUNT) if place != 30}
    gate.wait_entered()
    gate.open()
    assert list(results) == [None]


def test_results_in_front_of_a_long_call_are_there_before_it_ends(
    make_executor: Callable[..., gristmill.Executor], gate: Gate
) -> None:
    executor = make_executor(1)
    teach(executor)
    names = ["enter" if place == 30 else "same" for place in range(COUNT)]
    arguments = [gate.path if place == 30 else str(place) for place in range(COUNT)]
    results = executor.map(calls.act, names, arguments)
    assert [next(results) for _ in range(30)] == arguments[:30]
    gate.wait_entered()
    gate.open()
    assert list(results) == [None, *arguments[31:]]


@pytest.mark.parametrize("way", ["close", "shutdown"])
def test_what_is_cancelled_behind_a_running_call_never_runs(
    make_executor: Callable[..., gristmill.Executor], gate: Gate, tmp_path: Path, way: str
) -> None:
    executor = make_executor(1)
    teach(executor)
    path = tmp_path / "runs"
    names = ["enter" if place == 30 else "append" for place in range(COUNT)]
    first = [gate.path if place == 30 else str(path) for place in range(COUNT)]
    results = executor.map(calls.act, names, first, map(str, range(COUNT)))
    assert [next(results) for _ in range(30)] == [str(place) for place in range(30)]
    gate.wait_entered()
    if way == "close":
        results.close()  # type: ignore[attr-defined]
    else:
        executor.shutdown(wait=False, cancel_futures=True)
    gate.open()
    executor.shutdown()
    assert path.read_text().split() == [str(place) for place in range(30)]


def test_calls_that_became_tasks_behind_a_long_call_are_cancelled_with_their_map(
    make_executor: Callable[..., gristmill.Executor], gate: Gate, tmp_path: Path
) -> None:
    """A worker that idles takes the calls behind a long one as tasks; here it meets a long one, too."""
    executor = make_executor(2)
    teach(executor)
    path = tmp_path / "runs"
    names = ["enter" if place in (1, 2) else "append" for place in range(COUNT)]
    first = [gate.path if place in (1, 2) else str(path) for place in range(COUNT)]
    results = executor.map(calls.act, names, first, map(str, range(COUNT)))
    assert next(results) == "0"
    gate.wait_entered()
    gate.wait_entered()
    ran = path.read_text().split()
    results.close()  # type: ignore[attr-defined]
    gate.open(2)
    executor.shutdown()
    assert path.read_text().split() == ran


def test_a_call_of_a_batch_may_submit_and_wait(executor: gristmill.Executor) -> None:
    teach(executor)
    names = ["nested_sum" if place % 40 == 5 else "same" for place in range(COUNT)]
    assert list(executor.map(calls.act, names, [3] * COUNT)) == [3] * COUNT


def test_counts_are_of_calls(executor: gristmill.Executor) -> None:
    teach(executor)
    before = executor.stats()
    teach(executor)
    after = executor.stats()
    assert after.submitted - before.submitted == COUNT
    assert after.outstanding == 0
