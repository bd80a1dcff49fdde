"""The option that binds workers to cores: every placement that starts agents has it, with the same values."""

from __future__ import annotations

import os
import types
from collections.abc import Callable

import pytest

from gristmill import Executor, on
from gristmill._nodes import mpi, ray, ssh
from gristmill._nodes.placement import Placement

import calls
from processes import Processes
from stage import Gate

CORES = sorted(os.sched_getaffinity(0))


class Client:
    """A stand-in for Dask's client."""

    def register_plugin(self, plugin: object, name: str) -> None: ...


def on_ray(cpu_affinity: str) -> ray.RayNodes:
    return ray.RayNodes(None, False, None, None, None, {}, None, cpu_affinity)


PLACED: list[Callable[..., Placement]] = [
    lambda **options: on.local(1, **options),
    lambda **options: on.ssh(["n1"], **options),
    lambda **options: on.mpi(launcher=["mpiexec"], **options),
    lambda **options: on.dask(Client(), **options),
    lambda **options: on.provider(Processes(), **options),
    on_ray,
]


@pytest.mark.parametrize("make", PLACED)
def test_a_policy_that_is_none_is_refused_before_anything_starts(
    make: Callable[..., Placement],
) -> None:
    make(cpu_affinity="numa")
    make(cpu_affinity="list:0,1:2")
    with pytest.raises(ValueError, match="cpu_affinity 'blok' is none of none, numa, block"):
        make(cpu_affinity="blok")
    with pytest.raises(ValueError, match="not a list of cores"):
        make(cpu_affinity="list:first")


def test_hosts_are_told(monkeypatch: pytest.MonkeyPatch) -> None:
    placement = on.ssh(["n1"], cpu_affinity="alternating")
    assert isinstance(placement, ssh.SshNodes)
    (command,) = placement._command("n1", ["here:1"], None)[-1:]
    assert "--cpu-affinity alternating" in command
    plain = on.ssh(["n1"])
    assert isinstance(plain, ssh.SshNodes)
    assert "--cpu-affinity" not in plain._command("n1", ["here:1"], None)[-1]


def test_ranks_are_told(monkeypatch: pytest.MonkeyPatch) -> None:
    commands = []
    monkeypatch.setattr(
        mpi, "SupervisedProcess", lambda _, command, *__, **___: commands.append(command)
    )
    monkeypatch.setattr(
        mpi, "Supervisor", lambda *_, **__: types.SimpleNamespace(start=lambda: None)
    )
    placement = on.mpi(launcher=["true"], cpu_affinity="block")
    placement.client = types.SimpleNamespace(
        is_over=None, give_up=None, leaving=None, connected=None
    )  # type: ignore[assignment]
    placement.start("0.0.0.0:1", "key")
    ((*_, option, policy, last),) = commands
    assert (option, policy, last) == ("--cpu-affinity", "block", "--rank")


def test_actors_are_told(monkeypatch: pytest.MonkeyPatch) -> None:
    seats = []
    monkeypatch.setattr(ray, "RayAgentSlot", lambda *arguments: seats.append(arguments[-1]))
    placement = on_ray("numa")
    scheduling = types.SimpleNamespace(NodeAffinitySchedulingStrategy=lambda *_, **__: None)
    placement._ray = types.SimpleNamespace(
        util=types.SimpleNamespace(scheduling_strategies=scheduling)
    )
    placement._make_slot({"NodeID": "1", "NodeManagerHostname": "n1", "Resources": {"CPU": 2}})
    assert seats == [([], "", "n1", 2, None, None, "numa", 2)]


@pytest.mark.skipif(len(CORES) < 2, reason="two cores are needed")
def test_agents_on_one_machine_divide_its_cores_before_they_bind(gate: Gate) -> None:
    with Executor(nodes=on.local(2, 1, cpu_affinity="block")) as executor:
        held = [executor.submit(calls.enter_and_see_cores, gate.path) for _ in range(2)]
        gate.wait_entered(), gate.wait_entered()
        gate.open(2)
        one, other = sorted((future.result() for future in held), key=min)
    half = len(CORES) // 2
    assert (one, other) == (set(CORES[:half]), set(CORES[half:]))
