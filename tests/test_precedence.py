"""Waiting tasks of a higher priority begin before all waiting tasks of a lower one."""

from __future__ import annotations

from concurrent.futures import wait
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from gristmill import Executor, on

import calls
from stage import Gate, wait_until_received

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture(params=["here", "on a node"])
def executor(request: pytest.FixtureRequest) -> Iterator[Executor]:
    """Yields an executor of one started worker: its tasks begin in an exact order."""
    place: dict[str, Any] = {"max_workers": 1}
    if request.param == "on a node":
        place = {"nodes": on.local(1, workers=1)}
    with Executor(**place) as made:
        wait([made.submit(calls.nothing) for _ in range(8)])
        yield made


class Order:
    """Tasks that note the order in which they begin, behind a task that keeps the worker busy."""

    def __init__(self, executor: Executor, gate: Gate, folder: Path) -> None:
        self.executor = executor
        self.note = str(folder / "note")
        self.gate = gate
        self.busy = [executor.submit(calls.enter, gate.path)]
        gate.wait_entered()

    def submit(self, name: str, count: int, **options: Any) -> None:
        executor = self.executor.options(**options)
        self.busy += [executor.submit(calls.append, self.note, name) for _ in range(count)]

    def begun(self) -> list[str]:
        wait_until_received(self.executor)
        self.gate.open(1)
        wait(self.busy)
        return Path(self.note).read_text().split()


def test_a_higher_priority_goes_before_what_workers_have_already(
    executor: Executor, gate: Gate, tmp_path: Path
) -> None:
    order = Order(executor, gate, tmp_path)
    order.submit("low", 6)
    order.submit("high", 4, priority=10)
    assert order.begun() == ["high"] * 4 + ["low"] * 6


def test_a_priority_below_zero_goes_behind_what_came_later(
    executor: Executor, gate: Gate, tmp_path: Path
) -> None:
    order = Order(executor, gate, tmp_path)
    order.submit("low", 6, priority=-1)
    order.submit("plain", 4)
    assert order.begun() == ["plain"] * 4 + ["low"] * 6


def test_a_map_with_a_priority_goes_before_a_map_without(
    executor: Executor, gate: Gate, tmp_path: Path
) -> None:
    order = Order(executor, gate, tmp_path)
    low = executor.map(calls.append, [order.note] * 40, ["low"] * 40)
    high = executor.options(priority=1).map(calls.append, [order.note] * 20, ["high"] * 20)
    wait_until_received(executor)
    gate.open(1)
    assert len(list(low)) + len(list(high)) == 60
    assert Path(order.note).read_text().split() == ["high"] * 20 + ["low"] * 40


def test_a_dependant_goes_before_others_once_it_is_ready(
    executor: Executor, gate: Gate, tmp_path: Path
) -> None:
    order = Order(executor, gate, tmp_path)
    low = [executor.submit(calls.enter, gate.path) for _ in range(6)]
    urgent = executor.options(priority=5)
    first = urgent.submit(calls.same, 1)
    after = urgent.submit(calls.same, first)
    wait_until_received(executor)
    gate.open(1)
    # This task began before the dependent task was known to be ready; no other task ends before that.
    gate.wait_entered()
    gate.open(1)
    wait([*order.busy, after])
    gate.open(len(low) - 1)
    wait(low)


def test_several_workers_take_what_is_higher_and_nothing_else(gate: Gate, tmp_path: Path) -> None:
    note = tmp_path / "note"
    with Executor(2) as executor:
        busy = [executor.submit(calls.enter, gate.path) for _ in range(2)]
        for _ in range(2):
            gate.wait_entered()
        low = [executor.submit(calls.append, str(note), "low") for _ in range(6)]
        urgent = executor.options(priority=1)
        high = [urgent.submit(calls.enter, gate.path) for _ in range(2)]
        gate.open(2)
        for _ in range(2):
            gate.wait_entered()
        assert not note.exists()
        gate.open(2)
        wait([*busy, *low, *high])
    assert note.read_text().split() == ["low"] * 6


def test_what_is_handed_back_runs_once_behind_what_is_higher(gate: Gate, tmp_path: Path) -> None:
    note = str(tmp_path / "note")
    with Executor(1) as executor:
        for _ in range(200):
            executor.submit(calls.append, note + ".other", "x").result()
        busy = executor.submit(calls.enter, gate.path)
        gate.wait_entered()
        low = [executor.submit(calls.append, note, str(number)) for number in range(300)]
        high = executor.options(priority=1).submit(calls.append, note, "high")
        gate.open(1)
        wait([busy, high, *low])
    first, *others = Path(note).read_text().split()
    assert first == "high"
    assert sorted(map(int, others)) == list(range(300))
