"""Losses of nodes and of the network to them: tasks that had not been sent are never lost."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest

from gristmill import Executor, WorkerLostError, on
from gristmill._nodes.local import LocalNodes

import calls
from proxy import RelayedNodes
from stage import Gate, Script, descent, lives, wait_for_nodes

pytestmark = pytest.mark.slow

MakeNodes = Callable[..., tuple[Executor, LocalNodes]]


def test_a_dead_worker_on_a_node_fails_what_it_had_started(make_nodes: MakeNodes) -> None:
    executor, _ = make_nodes(1, 1)
    with pytest.raises(WorkerLostError) as caught:
        executor.submit(calls.die, 9).result()
    text = str(caught.value)
    for part in ("signal 9 (SIGKILL)", "on local0", "last words", "die"):
        assert part in text
    assert executor.submit(calls.add, 1, 2).result() == 3


def test_a_lost_node_fails_what_it_had_and_nothing_else(make_nodes: MakeNodes, gate: Gate) -> None:
    executor, placement = make_nodes(2, 1)
    wait_for_nodes(executor, 2)
    held = [executor.submit(calls.enter, gate.path) for _ in range(2)]
    inside = [gate.wait_entered(), gate.wait_entered()]
    victim = next(agent for agent in placement.agents if inside[0] in descent(agent.pid))
    os.kill(victim.pid, signal.SIGKILL)
    gate.open(2)
    errors = [future.exception() for future in held]
    failed = [error for error in errors if error is not None]
    assert len(failed) == 1
    assert isinstance(failed[0], WorkerLostError)
    assert "was lost while it had the task" in str(failed[0])
    assert [executor.submit(calls.same, n).result() for n in range(100)] == list(range(100))


def test_a_node_whose_giver_dies_gets_the_rest_of_an_argument_elsewhere(
    make_nodes: MakeNodes,
) -> None:
    size = 256 << 20
    executor, placement = make_nodes(2, 1, blobs=on.Blobs(fanout=1))
    wait_for_nodes(executor, 2)
    argument = bytes(size)
    submit = executor.options(loss_retries=1).submit
    futures = [submit(len, argument) for _ in range(2)]
    given: dict[str, int] = {"": 0}
    while max(given.values()) < size // 4:
        given = {node.name: node.blob_bytes_given for node in executor.nodes()}
    victim = max(given, key=given.__getitem__)
    os.kill(placement.agents[int(victim.removeprefix("local"))].pid, signal.SIGKILL)
    assert [future.result() for future in futures] == [size, size]
    assert executor.stats().blob_bytes_given <= 2 * size, "what had come is not given again"


def test_with_a_budget_every_task_of_a_lost_node_runs_elsewhere(make_nodes: MakeNodes) -> None:
    executor, placement = make_nodes(2, 1)
    wait_for_nodes(executor, 2)
    submit = executor.options(loss_retries=1).submit
    futures = [submit(calls.same, number) for number in range(20_000)]
    os.kill(placement.agents[0].pid, signal.SIGKILL)
    assert [future.result() for future in futures] == list(range(20_000))


def test_a_frozen_node_is_given_up_and_what_it_had_runs_elsewhere(
    make_nodes: MakeNodes, gate: Gate
) -> None:
    executor, placement = make_nodes(2, 1)
    wait_for_nodes(executor, 2)
    held = executor.options(loss_retries=1).submit(calls.enter, gate.path)
    first = gate.wait_entered()
    victim = next(agent for agent in placement.agents if first in descent(agent.pid))
    frozen = [victim.pid, *descent(victim.pid)]
    for process in frozen:
        os.kill(process, signal.SIGSTOP)
    try:
        assert gate.wait_entered() != first, "it runs on the other node"
        gate.open(2)
        assert held.result() is None
    finally:
        for process in frozen:
            # A process may have been exiting when it was frozen.
            with suppress(ProcessLookupError):
                os.kill(process, signal.SIGCONT)
    while lives(first):
        pass  # an agent that comes back finds that its lease has expired, and ends its processes


def switches(process: int) -> int:
    """Returns how often a process has gone to sleep."""
    with open(f"/proc/{process}/status") as lines:
        return next(int(line.split()[1]) for line in lines if line.startswith("voluntary"))


def test_a_worker_begins_nothing_that_its_client_has_given_up(
    make_nodes: MakeNodes, gate: Gate, tmp_path: Path
) -> None:
    executor, placement = make_nodes(1, 1)
    wait_for_nodes(executor, 1)
    futures = [executor.submit(calls.enter, gate.path)]
    worker = gate.wait_entered()
    futures += [executor.submit(calls.append, str(tmp_path / "ran"), "late")]
    while executor.nodes()[0].running != 2:
        pass  # until its worker has both
    agent = placement.agents[0].pid
    os.kill(agent, signal.SIGSTOP)
    try:
        assert all(isinstance(future.exception(), WorkerLostError) for future in futures)
        before = switches(worker)
        gate.open()
        while switches(worker) == before:
            pass  # until it has no more work
        assert not (tmp_path / "ran").exists()
    finally:
        os.kill(agent, signal.SIGCONT)


def test_a_broken_connection_loses_and_repeats_nothing(
    make_nodes: MakeNodes, tmp_path: object
) -> None:
    executor, placement = make_nodes(1, 2, kind=RelayedNodes)
    executor.submit(calls.nothing).result()
    assert isinstance(placement, RelayedNodes)
    futures = []
    for number in range(20):
        futures += [
            executor.submit(calls.append, f"{tmp_path}/ran", f"{number}.{item} ")
            for item in range(200)
        ]
        placement.relay.cut()
    for future in futures:
        future.result()
    with open(f"{tmp_path}/ran") as file:
        ran = file.read().split()
    assert len(ran) == len(set(ran)) == 20 * 200


def test_a_node_that_was_cut_off_for_too_long_comes_back(make_nodes: MakeNodes) -> None:
    executor, placement = make_nodes(1, 1, kind=RelayedNodes)
    executor.submit(calls.nothing).result()
    assert isinstance(placement, RelayedNodes)
    (agent,) = placement.agents
    placement.relay.cut(for_good=True)
    later = executor.submit(calls.same, 7)
    while executor.nodes():
        pass  # the client ends its lease after a time of silence
    placement.relay.mend()
    assert later.result() == 7
    assert placement.agents == [agent], "it is the same agent, with another lease"


def test_a_node_whose_workers_keep_dying_gets_nothing_for_a_while(make_nodes: MakeNodes) -> None:
    executor, placement = make_nodes(2, 1)
    wait_for_nodes(executor, 2)
    bad = descent(placement.agents[0].pid)
    submit = executor.options(loss_retries=2).submit
    while not any(node.distrusted for node in executor.nodes()):
        for future in [submit(die_below, bad) for _ in range(4)]:
            future.exception()
    assert [submit(die_below, bad).result() for _ in range(50)] == [None] * 50


def die_below(keepers: list[int]) -> None:
    """Kills its worker if one of these processes has started it."""
    if os.getppid() in keepers:
        os.kill(os.getpid(), signal.SIGKILL)


def test_a_client_that_dies_takes_its_tasks_on_nodes_with_it(script: Script, gate: Gate) -> None:
    program = """
        import sys
        import calls
        from gristmill import Executor, on
        executor = Executor(nodes=on.local(1, 1))
        executor.submit(calls.enter, sys.argv[1])
        sys.stdin.read()
    """
    client = script.start(program, gate.path)
    worker = gate.wait_entered()
    below = descent(client.pid)
    assert worker in below
    client.kill()
    client.communicate()
    while lives(worker):
        pass  # its lease ends after its client was silent for a while


def test_shutdown_does_not_wait_for_nodes_that_are_frozen(
    make_nodes: MakeNodes, gate: Gate, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The time that processes have to leave is longer than the watchdog of the tests."""
    executor, placement = make_nodes(2, 1)
    held = [executor.submit(calls.enter, gate.path) for _ in range(2)]
    gate.wait_entered()
    gate.wait_entered()
    assert placement.supervisor is not None
    leave_s = 100_000.0
    monkeypatch.setattr(placement, "end", lambda: placement.supervisor.end(leave_s))
    for agent in placement.agents:
        agent.send_signal(signal.SIGSTOP)
    executor.shutdown(cancel_futures=True)
    assert [type(future.exception()) for future in held] == [WorkerLostError] * 2
    assert not placement.agents
