"""Placements and providers that several executors use, at a time or one after the other."""

from __future__ import annotations

import itertools
import threading
import types
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

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


class Used(NamedTuple):
    """A placement that a first executor has used, and the executor that uses it now."""

    placement: Placement
    #: The first executor.
    earlier: list[Executor]
    executor: Executor


@pytest.fixture(scope="module")
def used() -> Iterator[Used]:
    placement = on.local(1)
    first = Executor(nodes=placement)
    assert first.submit(calls.same, 1).result() == 1
    first.shutdown()
    earlier = [first]
    del first
    with Executor(nodes=placement) as executor:
        yield Used(placement, earlier, executor)


def test_executors_use_one_placement_one_after_the_other(used: Used) -> None:
    assert used.executor.submit(calls.same, 1).result() == 1
    assert used.executor._placement is used.placement


def test_an_executor_that_is_dropped_leaves_its_placement_to_the_next_one(used: Used) -> None:
    assert used.executor.submit(calls.same, 1).result() == 1
    used.earlier.clear()
    assert not _executor._forsaken
    assert used.placement in _executor._placed.values()
    assert used.executor.submit(calls.same, 2).result() == 2


def test_an_executor_that_never_started_ends_no_node_of_another(used: Used) -> None:
    assert used.executor.submit(calls.same, 1).result() == 1
    Executor(nodes=used.placement).shutdown()
    assert used.executor.submit(calls.same, 2).result() == 2


def test_a_placement_is_free_after_an_executor_that_never_started() -> None:
    placement = on.local(1)
    Executor(nodes=placement).shutdown()
    dropped = Executor(nodes=placement)
    assert dropped._placement is placement
    del dropped
    with Executor(nodes=placement) as executor:
        assert executor._placement is placement


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


class Watched(Own):
    """A placement that does something while an executor looks, for the given time, whether it is its own."""

    def __init__(self) -> None:
        self.looks = 0
        self.at: int | None = None
        self.meanwhile: Callable[[], None] = lambda: None
        self.ends = 0
        self._claimed: Any = None

    @property
    def _claim(self) -> Any:
        claimed = self._claimed
        self.looks += 1
        if self.looks == self.at:
            self.meanwhile()
        return claimed

    @_claim.setter
    def _claim(self, claim: Any) -> None:
        self._claimed = claim

    def end(self) -> None:
        self.ends += 1


def test_threads_that_shut_down_one_executor_do_not_end_the_nodes_of_the_next() -> None:
    for look in itertools.count(1):
        placement = Watched()
        first, later = begun(placement), []

        def meanwhile() -> None:
            first.shutdown(cancel_futures=True)  # noqa: B023
            later.append(begun(placement))  # noqa: B023

        placement.meanwhile, placement.at = meanwhile, placement.looks + look
        first.shutdown(cancel_futures=True)
        if not later:
            break
        assert placement.ends == 1, f"at look {look}"
        later[0].shutdown(cancel_futures=True)
        assert placement.ends == 2
    assert look > 1


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
    monkeypatch.setattr(ray, "_is_connection_made", False)
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


def test_threads_that_use_ray_at_a_time_connect_once(cluster: Ray) -> None:
    init, others = cluster.init, []

    def is_free() -> None:
        others.append(ray._connection_lock.acquire(blocking=False))

    def watched(address: str, logging_level: str) -> None:
        thread = threading.Thread(target=is_free)
        thread.start()
        thread.join()
        init(address, logging_level)

    cluster.init = watched  # type: ignore[method-assign]
    on.ray()
    on.ray()
    assert others == [False], "another thread waits"
    assert cluster.addresses == ["auto"]


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
