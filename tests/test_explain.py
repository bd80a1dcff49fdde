"""The reason why a task does not run: the executor gives it in words."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from gristmill import Executor
from gristmill._nodes.local import LocalNodes
from gristmill._nodes.placement import Placement

import calls
from stage import Gate

MakeExecutor = Callable[..., Executor]


def test_a_task_says_what_it_waits_for(make_executor: MakeExecutor, gate: Gate) -> None:
    executor = make_executor(1)
    running = executor.submit(calls.enter, gate.path)
    gate.wait_entered()
    behind = [executor.submit(calls.nothing) for _ in range(5)]
    dependant = executor.submit(calls.both, running, behind[0])
    assert "(enter) runs on worker 0" in executor.explain(running)
    assert "before it" in executor.explain(behind[-1])
    said = executor.explain(dependant)
    assert "waits for 2 tasks among its arguments" in said
    assert "(enter) runs on worker 0" in said
    gate.open()
    assert dependant.result()
    assert "has ended" in executor.explain(running)


def test_a_task_on_a_node_says_which(make_executor: MakeExecutor, gate: Gate) -> None:
    executor = make_executor(1, nodes=LocalNodes(1, 1))
    running = executor.submit(calls.enter, gate.path)
    gate.wait_entered()
    assert "is with node local0, whose last report counts" in executor.explain(running)
    gate.open()


class Nowhere(Placement):
    """A placement that starts no agent."""

    listen = "127.0.0.1:0"

    def start(self, address: str | None, key: str) -> None:
        pass

    def end(self) -> None:
        pass


def test_without_a_node_it_says_so(make_executor: MakeExecutor) -> None:
    executor = make_executor(1, nodes=Nowhere())
    waiting = executor.submit(calls.nothing)
    assert "waits for a worker; no task is before it. No node is connected" in executor.explain(
        waiting
    )


def test_only_a_future_of_its_own_is_explained(make_executor: MakeExecutor) -> None:
    one, other = make_executor(1), make_executor(1)
    with pytest.raises(
        TypeError, match="an executor can explain only the futures that it returned"
    ):
        one.explain(other.submit(calls.nothing))


def test_without_a_worker_an_executor_of_this_machine_speaks_of_workers(
    make_executor: MakeExecutor,
) -> None:
    said = [
        executor.explain(executor.submit(calls.nothing))
        for executor in (make_executor(1), make_executor(2, start="spawn"))
    ]
    assert not any("node" in text for text in said)
