"""Other engines on a cluster: each runs its tasks on the nodes."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from cluster import Cluster, openmpi_hindrance
from cluster.engines import dask, engine_hindrance, ray

_MEET = Path(__file__).with_name("meet.py")


def _met(cluster: Cluster, *arguments: str) -> list[str]:
    program = [sys.executable, str(_MEET), *arguments]
    return cluster.login.run(program, cwd=cluster.shared).stdout.split()


@pytest.mark.skipif(bool(openmpi_hindrance()), reason=str(openmpi_hindrance()))
def test_open_mpi_starts_processes_on_the_nodes(cluster: Cluster) -> None:
    program = ["sh", "-c", "echo $(hostname) $OMPI_COMM_WORLD_RANK"]
    printed = cluster.mpiexec(["n1", "n2"], program, per_host=2).stdout
    assert sorted(printed.splitlines()) == ["n1 0", "n1 1", "n2 2", "n2 3"]


@pytest.mark.skipif(
    bool(engine_hindrance("distributed")), reason=str(engine_hindrance("distributed"))
)
def test_dask_runs_tasks_on_the_nodes(cluster: Cluster) -> None:
    with dask(cluster) as address:
        assert _met(cluster, "dask", address) == ["n1", "n2"]


@pytest.mark.skipif(bool(engine_hindrance("ray")), reason=str(engine_hindrance("ray")))
def test_ray_runs_tasks_on_the_nodes(cluster: Cluster) -> None:
    with ray(cluster) as address:
        assert _met(cluster, "ray", address) == ["n1", "n2"]
