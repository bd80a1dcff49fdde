"""Our engine on nodes that other systems place: through a shell, as ranks of Open MPI, with Ray and with Dask."""

from __future__ import annotations

from pathlib import Path

import pytest

from cluster import Cluster, openmpi_hindrance, until
from cluster.engines import dask, engine_hindrance, ray
from cluster.openmpi import ENVIRONMENT, mpiexec
from placing import agent_on, command, finish, kill, parent, start
from stage import Gate

#: Options come before the dashes, in the syntax of ``ssh``.
_SHELL = """#!/bin/sh
while [ "$1" != -- ]; do shift; done
shift
exec {shell} "$@"
"""


@pytest.fixture
def shell(cluster: Cluster) -> str:
    """Returns a program that is called as ``ssh`` is."""
    path: Path = cluster.shared / "ssh"
    path.write_text(_SHELL.format(shell=cluster.shell))
    path.chmod(0o755)
    return str(path)


def test_hosts_of_a_shell_run_tasks(cluster: Cluster, folder: Path, gate: Gate, shell: str) -> None:
    words = command("ssh", gate.path, shell, "n1", "n2")
    with start(cluster, {}, folder, *words) as program:
        gate.wait_entered()
        gate.wait_entered()
        gate.close()
        assert sorted(finish(program)) == ["n1", "n2"]
    assert not [node for node in cluster.nodes if node.processes()]


def test_a_host_that_dies_and_comes_back_is_used_again(
    cluster: Cluster, folder: Path, gate: Gate, shell: str
) -> None:
    words = command("ssh", gate.path, shell, "n1")
    with start(cluster, {}, folder, *words) as program:
        gate.wait_entered()
        cluster.node("n1").kill()
        cluster.node("n1").boot()
        gate.wait_entered()
        gate.close()
        assert finish(program) == ["n1", "n1"]


def test_a_host_that_was_cut_off_is_used_again_when_the_network_is_back(
    cluster: Cluster, folder: Path, gate: Gate, shell: str
) -> None:
    words = command("ssh", gate.path, shell, "n1")
    node = cluster.node("n1")
    with start(cluster, {}, folder, *words) as program:
        gate.wait_entered()
        agent = agent_on(node)
        node.partition()
        until(lambda: node.processes() == [agent])  # the lease is over, and so are its processes
        node.heal()
        gate.wait_entered()
        gate.close()
        assert finish(program) == ["n1", "n1"]


def test_agents_go_when_their_client_is_killed(
    cluster: Cluster, folder: Path, gate: Gate, shell: str
) -> None:
    words = command("ssh", gate.path, shell, "n1", "n2")
    with start(cluster, {}, folder, *words) as program:
        gate.wait_entered()
        gate.wait_entered()
        program.kill()
        for node in cluster.nodes:
            while node.processes():
                pass


@pytest.mark.skipif(bool(openmpi_hindrance()), reason=str(openmpi_hindrance()))
def test_ranks_of_open_mpi_run_tasks_and_one_may_die(
    cluster: Cluster, folder: Path, gate: Gate
) -> None:
    launcher = mpiexec(cluster.shell, "10.77.0.0/24", ["n1", "n2"], 1)
    words = command("mpi", gate.path, *launcher)
    with start(cluster, ENVIRONMENT, folder, *words) as program:
        gate.wait_entered()
        gate.wait_entered()
        kill(cluster.node("n2"), agent_on(cluster.node("n2")))
        gate.open()
        gate.wait_entered()
        gate.close()
        assert finish(program) == ["n1", "n1"], "the launcher leaves the other rank alone"


@pytest.mark.skipif(bool(openmpi_hindrance()), reason=str(openmpi_hindrance()))
def test_a_rank_of_open_mpi_may_start_others(cluster: Cluster, folder: Path, gate: Gate) -> None:
    launcher = mpiexec(cluster.shell, "10.77.0.0/24", ["n1", "n2"], 1)
    words = ["mpiexec", "-np", "1", *command("mpi", gate.path, *launcher)]
    with start(cluster, ENVIRONMENT, folder, *words) as program:
        gate.wait_entered()
        gate.wait_entered()
        gate.close()
        assert sorted(finish(program)) == ["n1", "n2"]


@pytest.mark.skipif(bool(engine_hindrance("ray")), reason=str(engine_hindrance("ray")))
def test_nodes_of_ray_run_tasks_and_an_actor_may_die(
    cluster: Cluster, folder: Path, gate: Gate
) -> None:
    with (
        ray(cluster) as address,
        start(cluster, {}, folder, *command("ray", gate.path, address)) as program,
    ):
        gate.wait_entered()
        gate.wait_entered()
        kill(cluster.node("n2"), parent(agent_on(cluster.node("n2"))))
        gate.wait_entered()
        gate.close()
        assert sorted(finish(program)) == ["n1", "n2"]


@pytest.mark.skipif(bool(engine_hindrance("ray")), reason=str(engine_hindrance("ray")))
def test_a_node_of_ray_that_dies_costs_no_task(cluster: Cluster, folder: Path, gate: Gate) -> None:
    with (
        ray(cluster) as address,
        start(cluster, {}, folder, *command("ray", gate.path, address)) as program,
    ):
        gate.wait_entered()
        gate.wait_entered()
        cluster.node("n2").kill()
        gate.open()
        gate.wait_entered()
        gate.close()
        assert finish(program) == ["n1", "n1"]


@pytest.mark.skipif(
    bool(engine_hindrance("distributed")), reason=str(engine_hindrance("distributed"))
)
def test_workers_of_dask_run_tasks_and_one_may_die(
    cluster: Cluster, folder: Path, gate: Gate
) -> None:
    with (
        dask(cluster) as address,
        start(cluster, {}, folder, *command("dask", gate.path, address)) as program,
    ):
        gate.wait_entered()
        gate.wait_entered()
        # The worker's nanny starts another worker.
        kill(cluster.node("n2"), parent(agent_on(cluster.node("n2"))))
        gate.wait_entered()
        gate.close()
        assert sorted(finish(program)) == ["n1", "n2"]
