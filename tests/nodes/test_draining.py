"""Nodes that will end at a known time: waiting tasks move to other nodes, running tasks may finish, and no task loses a
retry.
"""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Callable
from contextlib import suppress

import pytest

from gristmill import Executor, WorkerLostError
from gristmill._nodes.local import LocalNodes

import calls
from stage import Gate, descent, wait_for_nodes

MakeNodes = Callable[..., tuple[Executor, LocalNodes]]


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_a_node_that_is_told_to_stop_finishes_what_runs_and_gives_the_rest_back(
    make_nodes: MakeNodes, gate: Gate, number: signal.Signals
) -> None:
    executor, placement = make_nodes(2, 1)
    wait_for_nodes(executor, 2)
    held = [executor.submit(calls.enter, gate.path, number) for number in range(6)]
    first = gate.wait_entered()
    gate.wait_entered()
    victim = next(agent for agent in placement.agents if first in descent(agent.pid))
    os.kill(victim.pid, number)
    gate.open(6)
    assert [future.result() for future in held] == list(range(6)), "without any budget"
    assert victim.wait() == 0


@pytest.mark.parametrize("number", [signal.SIGUSR1, signal.SIGUSR2])
def test_a_warning_to_every_process_of_a_node_changes_nothing(
    make_nodes: MakeNodes, gate: Gate, number: signal.Signals
) -> None:
    executor, placement = make_nodes(1, 1)
    held = executor.submit(calls.enter, gate.path, 1)
    gate.wait_entered()
    (agent,) = placement.agents
    below = descent(agent.pid)
    for process in [agent.pid, *below]:
        # A zygote may replace a process that it has forked ahead.
        with suppress(ProcessLookupError):
            os.kill(process, number)
    gate.open()
    assert held.result() == 1, "without any budget"
    assert executor.submit(calls.same, 2).result() == 2
    assert agent.poll() is None
    assert set(below) <= set(descent(agent.pid))


class Patient(LocalNodes):
    """Agents that let tasks finish for an hour."""

    options = ("--drain", "3600")


def test_a_node_that_has_lost_its_leash_waits_for_nothing(
    make_nodes: MakeNodes, gate: Gate
) -> None:
    executor, placement = make_nodes(1, 1, kind=Patient)
    held = executor.submit(calls.enter, gate.path)
    gate.wait_entered()
    (agent,) = placement.agents
    os.kill(agent.pid, signal.SIGTERM)
    os.kill(agent.pid, signal.SIGTERM)
    assert agent.stdin is not None
    agent.stdin.close()
    assert agent.wait() == 0
    with pytest.raises(WorkerLostError):
        held.result()


def test_what_runs_finishes_although_every_process_of_its_node_is_told_to_end(
    make_nodes: MakeNodes, gate: Gate
) -> None:
    executor, placement = make_nodes(1, 2)
    held = [executor.submit(calls.enter, gate.path, number) for number in range(2)]
    gate.wait_entered()
    gate.wait_entered()
    (agent,) = placement.agents
    # Slurm signals every process so when a job is cancelled or its time is over.
    for process in descent(agent.pid):
        with suppress(ProcessLookupError):
            os.kill(process, signal.SIGTERM)
    gate.open(2)
    assert [future.result() for future in held] == [0, 1], "without any budget"


def test_what_a_task_starts_on_a_node_can_be_told_to_end(make_nodes: MakeNodes) -> None:
    executor, _ = make_nodes(1, 1)
    assert executor.submit(end_of_program).result() == -signal.SIGTERM
    assert executor.submit(end_of_fork).result() == signal.SIGTERM


def end_of_program() -> int:
    with subprocess.Popen(["sleep", "3600"]) as program:
        program.terminate()
        return program.wait()


def end_of_fork() -> int:
    process = os.fork()
    if not process:
        while True:
            signal.pause()
    os.kill(process, signal.SIGTERM)
    return os.WTERMSIG(os.waitpid(process, 0)[1])


class ShortLived(LocalNodes):
    """Agents whose nodes end after three seconds."""

    options = ("--walltime", "3", "--drain", "1")


def test_no_task_is_sent_where_it_would_not_finish(make_nodes: MakeNodes) -> None:
    executor, _ = make_nodes(1, 1, kind=ShortLived)
    executor.submit(time.sleep, 0.8).result()
    started = [executor.submit(time.sleep, 0.8) for _ in range(5)]
    while any(node.connected for node in executor.nodes()):
        pass
    done = [future for future in started if future.done()]
    assert len(done) < 5
    assert all(future.exception() is None for future in done)
    assert not any(future.running() for future in started if future not in done)


def test_use_is_counted(make_nodes: MakeNodes) -> None:
    executor, _ = make_nodes(1, 1)
    executor.submit(time.sleep, 0.2).result()
    while (node := executor.nodes()[0]).busy_s < 0.2:
        executor.submit(calls.nothing).result()
    assert node.workers == 1
    assert node.up_s > 0.2
    assert node.sent_bytes > 0
    assert node.round_trip_s == pytest.approx(0, abs=1)
