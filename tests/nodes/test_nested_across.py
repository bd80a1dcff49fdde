"""Tasks that tasks submit: they run on other nodes where workers are idle."""

from __future__ import annotations

from collections.abc import Callable

from gristmill import Executor, current_executor
from gristmill._nodes.local import LocalNodes

import calls
from stage import Gate, descent, wait_for_nodes

MakeNodes = Callable[..., tuple[Executor, LocalNodes]]


def spread(path: str, count: int) -> list[int]:
    """Submits tasks that wait at a gate; returns the processes that ran them."""
    executor = current_executor()
    children = [executor.submit(calls.enter, path, number) for number in range(count)]
    return [child.result() for child in children]


def fibonacci(number: int) -> int:
    if number < 2:
        return number
    executor = current_executor()
    one, other = (executor.submit(fibonacci, number - less) for less in (1, 2))
    return one.result() + other.result()


def test_children_of_one_task_run_on_several_nodes(make_nodes: MakeNodes, gate: Gate) -> None:
    executor, placement = make_nodes(3, 1)
    wait_for_nodes(executor, 3)
    parent = executor.submit(spread, gate.path, 6)
    inside: set[int] = set()
    # Up to two of them run at the parent's own node: in the waiting worker, and in the spare that has its CPU slot.
    while not all(inside.intersection(descent(agent.pid)) for agent in placement.agents):
        inside.add(gate.wait_entered())
    gate.open(6)
    assert parent.result() == list(range(6))


def test_a_recursion_over_nodes_ends(make_nodes: MakeNodes) -> None:
    executor, _ = make_nodes(2, 2)
    wait_for_nodes(executor, 2)
    assert executor.submit(fibonacci, 13).result() == 233
