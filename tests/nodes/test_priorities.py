"""Priorities on nodes: of tasks that a node already has, and of tasks that the client still has."""

from __future__ import annotations

import time
from collections.abc import Callable
from concurrent.futures import Future
from pathlib import Path
from typing import Any

import pytest

from gristmill import BoundExecutor, Context, Executor
from gristmill._nodes.local import LocalNodes

import calls
from stage import Gate, wait_for_nodes, wait_until_received

MakeNodes = Callable[..., tuple[Executor, LocalNodes]]


@pytest.mark.parametrize("count", [4, 40])
def test_tasks_on_a_node_run_in_order_of_their_priority(
    make_nodes: MakeNodes, gate: Gate, tmp_path: Path, count: int
) -> None:
    executor, _ = make_nodes(1, 1)
    # Long tasks fill the worker's queue: the tasks behind them wait in order of their priority.
    held = [executor.submit(calls.enter, gate.path) for _ in range(4)]
    gate.wait_entered()
    note = str(tmp_path / "note")
    priorities = [number * 7 % count for number in range(count)]
    tasks = [
        executor.options(priority=priority).submit(calls.append, note, str(priority))
        for priority in priorities
    ]
    wait_until_received(executor)
    gate.open(4)
    for future in [*held, *tasks]:
        future.result()
    ran = [int(line) for line in Path(note).read_text().split()]
    assert ran == sorted(priorities, reverse=True)


def make_gates(folder: Path, count: int) -> list[Gate]:
    gates = []
    for number in range(count):
        (folder / str(number)).mkdir()
        gates.append(Gate(folder / str(number)))
    return gates


def hold(executor: Executor | BoundExecutor, gates: list[Gate]) -> list[Future[Any]]:
    """Lets each gate hold an idle worker; returns the futures."""
    held = []
    for gate in gates:
        held.append(executor.submit(calls.enter, gate.path))
        gate.wait_entered()
    return held


#: Requests of all tasks, and the additional requests of the task with the higher priority.
KINDS: dict[str, Callable[[], tuple[dict[str, object], dict[str, object]]]] = {
    "without a context": lambda: ({}, {}),
    "with memory": lambda: ({}, {"memory": 1_000_000}),
    "all with memory": lambda: ({"memory": 1_000_000}, {}),
    "in a context": lambda: ({"context": Context(calls.nothing)}, {}),
}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("freed", [0, 1])
def test_a_task_of_a_higher_priority_goes_before_lower_ones_on_whichever_node_is_free_first(
    make_nodes: MakeNodes, tmp_path: Path, freed: int, kind: str
) -> None:
    made, _ = make_nodes(2, 1)
    wait_for_nodes(made, 2)
    alike, besides = KINDS[kind]()
    executor = made.options(**alike)
    higher = made.options(priority=1, **alike, **besides)
    gates = make_gates(tmp_path, 2)
    note = str(tmp_path / "note")
    try:
        held = hold(executor, gates)
        low = [executor.submit(calls.append, note, "low") for _ in range(20)]
        high = higher.submit(calls.append, note, "high")
        wait_until_received(made)
        gates[freed].open()
        high.result()
        assert Path(note).read_text().split()[0] == "high"
    finally:
        for gate in gates:
            gate.close()
    for future in [*held, *low]:
        future.result()


def test_workers_of_all_nodes_are_kept_for_a_task_that_needs_several(
    make_nodes: MakeNodes, tmp_path: Path
) -> None:
    executor, _ = make_nodes(2, 2)
    wait_for_nodes(executor, 2)
    gates = make_gates(tmp_path, 4)
    note = str(tmp_path / "note")
    try:
        held = hold(executor, gates)
        low = [executor.submit(calls.append, note, "low") for _ in range(20)]
        high = executor.options(priority=1, cores=2).submit(calls.append, note, "high")
        wait_until_received(executor)
        # The held tasks use one worker of each node.
        names = [
            executor.explain(future).split(" is with node ")[1].split(",")[0] for future in held
        ]
        firsts = [names.index(name) for name in sorted(set(names))]
        for first in firsts:
            gates[first].open()
            held[first].result()
        while {node.running for node in executor.nodes()} != {1}:
            time.sleep(0.001)
        assert not Path(note).exists(), "those that are free are kept for it"
        gates[3 if 3 not in firsts else 2].open()
        high.result()
    finally:
        for gate in gates:
            gate.close()
    for future in low:
        future.result()
