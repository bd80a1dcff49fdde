"""Tasks that submit tasks in contexts, on other nodes."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable

import pytest

from gristmill import Context, Executor, current_executor, on

import calls
from setups import Log, load, read_thrice
from stage import Gate, descent, wait_for_nodes

MakeExecutor = Callable[..., Executor]


@pytest.mark.parametrize("start", ["fork", "spawn"])
def test_a_task_on_a_node_names_a_context_that_it_has_only_heard_of(
    make_executor: MakeExecutor, log: Log, start: str
) -> None:
    context = Context(load, log)

    executor = make_executor(1, nodes=on.local(1, 1), start=start)
    assert executor.submit(read_thrice, context, 4).result() == [4, 4, 4]
    # The calls ran on the node, and none of them was submitted by the program.
    report = context.report(executor)
    assert report is not None
    assert (report.calls, report.setups) == (3, len(log.pids("load")))
    assert report.call_seconds > 0


def test_children_in_the_context_of_their_task_run_on_other_nodes(
    make_executor: MakeExecutor, log: Log, gate: Gate
) -> None:
    context = Context(load, log)

    def spread(path: str, count: int) -> list[int]:
        options = current_executor().options(context=context)
        children = [options.submit(enter_there, path, number) for number in range(count)]
        return [child.result() for child in children]

    def enter_there(path: str, number: int) -> int:
        calls.enter(path)
        return int(context["model"][number])

    executor = make_executor(1, nodes=on.local(2, 1))
    wait_for_nodes(executor, 2)
    parent = executor.options(context=context).submit(spread, gate.path, 4)
    inside: set[int] = set()
    while not are_on_both(executor, inside):
        inside.add(gate.wait_entered())
    gate.open(4)
    assert parent.result() == [0, 1, 2, 3]
    report = context.report(executor)
    assert report is not None
    assert report.calls == 5


def test_a_context_of_a_task_serves_its_tasks_on_other_nodes(
    make_executor: MakeExecutor, log: Log, gate: Gate
) -> None:
    def outer(path: str) -> list[int]:
        made = Context(load, log)

        def middle(path: str) -> list[int]:
            children = [made.submit(enter_there, path, number) for number in range(4)]
            return [child.result() for child in children]

        def enter_there(path: str, number: int) -> int:
            calls.enter(path)
            return int(made["model"][number])

        return made.submit(middle, path).result()

    executor = make_executor(1, nodes=on.local(2, 1))
    wait_for_nodes(executor, 2)
    parent = executor.submit(outer, gate.path)
    inside: set[int] = set()
    while not are_on_both(executor, inside):
        inside.add(gate.wait_entered())
    gate.open(4)
    assert parent.result() == [0, 1, 2, 3]


def are_on_both(executor: Executor, processes: set[int]) -> bool:
    """Returns whether each of two nodes has one of these processes."""
    agents = executor._placement.agents  # type: ignore[union-attr]
    return all(processes.intersection(descent(agent.pid)) for agent in agents)


def test_a_lost_node_costs_its_task_another_try(
    make_executor: MakeExecutor, log: Log, gate: Gate
) -> None:
    context = Context(load, log)

    def outer(path: str) -> int:
        def enter_there(path: str) -> int:
            calls.enter(path)
            return len(context["model"])

        return current_executor().options(context=context).submit(enter_there, path).result()

    executor = make_executor(1, nodes=on.local(2, 1))
    wait_for_nodes(executor, 2)
    parent = executor.options(loss_retries=1).submit(outer, gate.path)
    inside = gate.wait_entered()
    agents = executor._placement.agents  # type: ignore[union-attr]
    (home,) = [agent for agent in agents if inside in descent(agent.pid)]
    os.kill(home.pid, signal.SIGKILL)
    gate.wait_entered()
    gate.open(2)
    assert parent.result() == 10
