"""Placements and providers that several executors use, at a time or one after the other."""

from __future__ import annotations

import types
from pathlib import Path
from typing import Any

import pytest

from gristmill import Executor, _executor, on
from gristmill._nodes import ray
from gristmill._nodes.placement import Placement
from gristmill.parsl import GristmillExecutor
from gristmill.parsl._kernel.executors.blocks import placement_of

import calls
from processes import Processes
from stage import Gate


def test_executors_with_one_placement_at_a_time_have_nodes_of_their_own(gate: Gate) -> None:
    placement = on.local(1)
    with Executor(nodes=placement) as one, Executor(nodes=placement) as other:
        held = [
            one.submit(calls.enter, gate.path, "one"),
            other.submit(calls.enter, gate.path, "other"),
        ]
        assert gate.wait_entered() != gate.wait_entered()
        gate.open(2)
        assert [future.result() for future in held] == ["one", "other"]
        one.shutdown()
        assert other.submit(calls.same, 1).result() == 1


def test_executors_use_one_placement_one_after_the_other() -> None:
    placement = on.local(1)
    for number in range(2):
        with Executor(nodes=placement) as executor:
            assert executor.submit(calls.same, number).result() == number
            assert executor._placement is placement


def test_an_executor_that_is_dropped_leaves_its_placement_to_the_next_one() -> None:
    placement = on.local(1)
    first = Executor(nodes=placement)
    first.submit(calls.nothing).result()
    first.shutdown()
    with Executor(nodes=placement) as second:
        assert second.submit(calls.same, 1).result() == 1
        del first
        assert not _executor._forsaken
        assert _executor._placed == [placement]
        assert second.submit(calls.same, 2).result() == 2


def test_a_placement_is_free_after_an_executor_that_never_started() -> None:
    placement = on.local(1)
    Executor(nodes=placement).shutdown()
    dropped = Executor(nodes=placement)
    assert dropped._placement is placement
    del dropped
    with Executor(nodes=placement) as executor:
        assert executor._placement is placement


def test_an_executor_that_never_started_ends_no_node_of_another() -> None:
    placement = on.local(1)
    with Executor(nodes=placement) as executor:
        executor.submit(calls.nothing).result()
        Executor(nodes=placement).shutdown()
        assert executor.submit(calls.same, 1).result() == 1


class Own(Placement):
    """A placement of a user, which starts nothing."""

    def start(self, address: str | None, key: str) -> None: ...

    def end(self) -> None: ...


def test_a_placement_of_ones_own_is_refused_while_it_is_in_use() -> None:
    placement = Own()
    executor = Executor(nodes=placement)
    with pytest.raises(ValueError, match="another executor uses this Own, which serves one"):
        Executor(nodes=placement)
    executor.shutdown()
    Executor(nodes=placement).shutdown()


class Counted(Processes):
    """A provider that keeps its jobs in a table, as those of Parsl do."""

    def __init__(self) -> None:
        super().__init__()
        self.resources: dict[str, str] = {}

    def submit(self, command: str, tasks_per_node: int, job_name: str) -> str:
        job = super().submit(command, tasks_per_node, job_name)
        self.resources[job] = job_name
        return job


def test_executors_with_one_placement_of_a_provider_have_blocks_of_their_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    provider = Counted()
    placement = on.provider(provider, max_workers_per_node=1)
    with Executor(nodes=placement) as one, Executor(nodes=placement) as other:
        assert one.submit(calls.same, 1).result() == 1
        assert other.submit(calls.same, 2).result() == 2
        tables = [executor._placement.provider.resources for executor in (one, other)]  # type: ignore[union-attr]
        assert [len(table) for table in tables] == [1, 1]
        assert tables[0].keys().isdisjoint(tables[1])
        one.shutdown()
        assert other.submit(calls.same, 3).result() == 3
    provider.close()


def test_executors_of_a_configuration_with_one_provider_have_tables_of_jobs_of_their_own() -> None:
    provider = Counted()
    placements: list[Any] = [
        placement_of(GristmillExecutor(label, provider=provider)) for label in ("one", "other")
    ]
    first, second = (placement.provider for placement in placements)
    assert first.resources is not second.resources
    assert first.resources is not provider.resources


class Ray:
    """A stand-in for the connection to a cluster of Ray that has no nodes."""

    def __init__(self) -> None:
        self.addresses: list[str] = []
        self.is_connected = False
        self.exceptions = types.SimpleNamespace(ActorUnavailableError=KeyError)

    def init(self, address: str, logging_level: str) -> None:
        assert not self.is_connected
        self.addresses.append(address)
        self.is_connected = True

    def is_initialized(self) -> bool:
        return self.is_connected

    def shutdown(self) -> None:
        self.is_connected = False

    def nodes(self) -> list[dict[str, Any]]:
        assert self.is_connected
        return []


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch) -> Ray:
    cluster = Ray()
    modules = {"ray": cluster, "ray.util.scheduling_strategies": None}
    monkeypatch.setattr("importlib.import_module", modules.__getitem__)
    monkeypatch.setattr(ray, "_LOOK_S", 0.01)
    return cluster


def begun(placement: Placement) -> Executor:
    executor = Executor(nodes=placement)
    executor.submit(calls.nothing)
    return executor


def test_a_placement_of_ray_connects_again_for_the_next_executor(cluster: Ray) -> None:
    placement = on.ray("there:6379")
    for _ in range(2):
        executor = begun(placement)
        assert cluster.is_connected
        executor.shutdown(cancel_futures=True)
        assert not cluster.is_connected
    assert cluster.addresses == ["there:6379"] * 2


def test_placements_of_ray_share_a_connection_until_the_last_one_ends(cluster: Ray) -> None:
    one, other = begun(on.ray()), begun(on.ray())
    one.shutdown(cancel_futures=True)
    assert cluster.is_connected
    other.shutdown(cancel_futures=True)
    assert not cluster.is_connected
    assert cluster.addresses == ["auto"]


def test_a_connection_of_the_program_to_ray_stays(cluster: Ray) -> None:
    cluster.is_connected = True
    begun(on.ray()).shutdown(cancel_futures=True)
    assert cluster.is_connected
    assert not cluster.addresses
