"""Our engine on the nodes of a real Slurm, through Parsl's provider and launcher."""

from __future__ import annotations

from pathlib import Path

import pytest

from cluster import Cluster, until
from placing import agent_on, command, finish, kill, start, surroundings
from slurm import Slurm
from stage import Gate

pytest.importorskip("parsl.version")


def test_the_engine_runs_on_nodes_of_slurm(
    nodes: Cluster, slurm: Slurm, folder: Path, gate: Gate
) -> None:
    with start(
        nodes, slurm.environment, folder, *command("provider", gate.path, "2", "1")
    ) as program:
        gate.wait_entered()
        gate.wait_entered()
        gate.close()
        assert len(set(finish(program))) == 2
    until(lambda: not slurm.jobs())


@pytest.mark.parametrize("module", ["gristmill.parsl", "parsl"])
def test_the_executor_has_blocks_under_either_kernel(
    nodes: Cluster, slurm: Slurm, folder: Path, gate: Gate, module: str
) -> None:
    with start(
        nodes, slurm.environment, folder, *command("kernel", gate.path, module, "1", "2")
    ) as program:
        gate.wait_entered()
        gate.wait_entered()
        gate.close()
        assert len(set(finish(program))) == 2
    until(lambda: not slurm.jobs())
    key_files = list(folder.glob("runinfo/*/*.key"))
    assert not key_files


def test_a_cancelled_job_costs_no_task(
    nodes: Cluster, slurm: Slurm, folder: Path, gate: Gate
) -> None:
    with start(
        nodes, slurm.environment, folder, *command("provider", gate.path, "1", "2")
    ) as program:
        gate.wait_entered()
        gate.wait_entered()
        first = min(slurm.jobs(), key=int)
        slurm.run(["scancel", first])
        until(lambda: slurm.jobs()[first] == "COMPLETING")
        gate.close()
        assert len(set(finish(program))) == 2
    until(lambda: not slurm.jobs())


def test_a_node_that_dies_costs_no_task(
    nodes: Cluster, slurm: Slurm, folder: Path, gate: Gate
) -> None:
    with start(
        nodes, slurm.environment, folder, *command("provider", gate.path, "2", "1")
    ) as program:
        gate.wait_entered()
        gate.wait_entered()
        victim = nodes.node(used(slurm)[0])
        victim.kill()
        gate.wait_entered()
        gate.close()
        assert victim.name not in finish(program)
    victim.boot()
    slurm.start_daemon(victim)
    until(lambda: not slurm.jobs())


def test_a_program_in_an_allocation_has_its_nodes_and_a_rank_may_die(
    nodes: Cluster, slurm: Slurm, folder: Path, gate: Gate
) -> None:
    words = ["salloc", "--quiet", "--nodes", "2", *command("mpi", gate.path)]
    with start(nodes, slurm.environment, folder, *words) as program:
        gate.wait_entered()
        gate.wait_entered()
        first, second = used(slurm)
        kill(nodes.node(second), agent_on(nodes.node(second)))
        gate.open()
        gate.wait_entered()
        gate.close()
        assert finish(program) == [first, first], "the launcher leaves the other rank alone"
    until(lambda: not slurm.jobs())


def used(slurm: Slurm) -> list[str]:
    """Returns the nodes of the running job, by name."""
    names = slurm.run(["squeue", "--noheader", "--format", "%N"]).stdout.strip()
    return slurm.run(["scontrol", "show", "hostnames", names]).stdout.split()


def test_jobs_that_fail_fail_the_tasks_with_what_they_said(
    nodes: Cluster, slurm: Slurm, folder: Path
) -> None:
    program = command("broken", "no gate")
    done = nodes.login.run(program, env=surroundings(slurm.environment), cwd=folder)
    assert "StartError: no node runs tasks, and no node will join" in done.stdout
    assert "this is why" in done.stdout
