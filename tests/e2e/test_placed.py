"""Our engine on nodes that others place: through a shell, and as ranks of Open MPI."""

from __future__ import annotations

from pathlib import Path

import pytest

from cluster import Cluster, openmpi_hindrance
from cluster.openmpi import ENVIRONMENT, mpiexec
from placing import command, finish, start
from stage import Gate

#: Options come before the dashes, as ``ssh`` takes them.
_SHELL = """#!/bin/sh
while [ "$1" != -- ]; do shift; done
shift
exec {shell} "$@"
"""


@pytest.fixture
def shell(cluster: Cluster) -> str:
    """A program that is called as ``ssh`` is."""
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
        (agent,) = [one for one in cluster.node("n2").processes() if is_agent(one)]
        cluster.node("n2").run(["kill", "-KILL", str(inner_id(agent))])
        gate.open()
        gate.wait_entered()
        gate.close()
        assert finish(program) == ["n1", "n1"], "the launcher leaves the other rank alone"


def is_agent(process: int) -> bool:
    """Whether the process is an agent itself, and not what has started it."""
    words = Path(f"/proc/{process}/cmdline").read_text().split("\0")
    return "gristmill._cli" in words and "mpiexec" not in words[0]


def inner_id(process: int) -> int:
    """The id of a process where it runs."""
    for line in Path(f"/proc/{process}/status").read_text().splitlines():
        if line.startswith("NSpid:"):
            return int(line.split()[-1])
    raise ProcessLookupError(process)
