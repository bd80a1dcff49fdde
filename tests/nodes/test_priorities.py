"""Priorities on nodes: what is with a node already, and what is still with the client."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from gristmill import Executor
from gristmill._nodes.local import LocalNodes

import calls
from stage import Gate

MakeNodes = Callable[..., tuple[Executor, LocalNodes]]


@pytest.mark.parametrize("count", [4, 40])
def test_tasks_on_a_node_run_in_order_of_their_priority(
    make_nodes: MakeNodes, gate: Gate, tmp_path: Path, count: int
) -> None:
    executor, _ = make_nodes(1, 1)
    # Long tasks that fill the worker's queue: those behind them wait in order of their priority.
    held = [executor.submit(calls.enter, gate.path) for _ in range(4)]
    gate.wait_entered()
    note = str(tmp_path / "note")
    priorities = [number * 7 % count for number in range(count)]
    tasks = [
        executor.options(priority=priority).submit(calls.append, note, str(priority))
        for priority in priorities
    ]
    gate.open(4)
    for future in [*held, *tasks]:
        future.result()
    ran = [int(line) for line in Path(note).read_text().split()]
    assert ran == sorted(priorities, reverse=True)
