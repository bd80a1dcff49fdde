"""The GPUs and cores that workers of ``GristmillExecutor`` are bound to, and its fields for a provider."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any

import pytest

from gristmill import on
from gristmill._nodes.provider import ProviderNodes
from gristmill.parsl import GristmillExecutor
from gristmill.parsl._kernel.choice import worker_count
from gristmill.parsl._kernel.executors.blocks import placement_of
from gristmill.parsl.errors import ConfigurationError

import calls
from stage import Gate

MakeEngine = Callable[..., GristmillExecutor]


@pytest.fixture
def make_engine(monkeypatch: pytest.MonkeyPatch) -> Iterator[MakeEngine]:
    """Yields a function that makes started executors, which end with the test, on a machine with four GPUs."""
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "GPU-a,GPU-b,GPU-c,GPU-d")
    made: list[GristmillExecutor] = []

    def make(**options: Any) -> GristmillExecutor:
        made.append(GristmillExecutor(**options))
        made[-1].start()
        return made[-1]

    yield make
    for executor in made:
        executor.shutdown(cancel_futures=True)


def fake_provider(**more: Any) -> SimpleNamespace:
    blocks = {"init_blocks": 0, "min_blocks": 0, "max_blocks": 1, "nodes_per_block": 1}
    verbs = {name: lambda *_: None for name in ("submit", "status", "cancel")}
    return SimpleNamespace(**verbs, **blocks, parallelism=1.0, **more)


def seen_by_all(engine: GristmillExecutor, gate: Gate, count: int) -> list[str]:
    """Returns the GPUs that each of this many workers sees, all held at the same time."""
    held = [engine.submit(calls.enter_and_see_gpus, {}, gate.path) for _ in range(count)]
    for _ in held:
        gate.wait_entered()
    gate.open(count)
    return sorted(future.result() for future in held)


@pytest.mark.parametrize(
    ("available", "seen"),
    [
        (2, ["GPU-a", "GPU-b"]),
        (["7", "3"], ["3", "7"]),
        (["0,1", "2,3"], ["0,1", "2,3"]),
    ],
)
def test_each_worker_sees_one_of_the_accelerators(
    make_engine: MakeEngine, gate: Gate, available: Any, seen: list[str]
) -> None:
    engine = make_engine(max_workers=8, available_accelerators=available)
    assert worker_count(engine) == engine.workers_per_node == 2
    assert seen_by_all(engine, gate, 2) == seen


def test_more_workers_than_gpus_share_them(make_engine: MakeEngine, gate: Gate) -> None:
    engine = make_engine(max_workers=8, available_accelerators=8)
    assert seen_by_all(engine, gate, 8) == [f"GPU-{name}" for name in "aabbccdd"]


def test_a_task_that_asks_for_a_gpu_sees_that_and_the_next_one_its_workers(
    make_engine: MakeEngine,
) -> None:
    engine = make_engine(max_workers=1, available_accelerators=["5,6"])
    assert engine.submit(calls.seen_gpus, {}).result() == "5,6"
    assert engine.submit(calls.seen_gpus, {"gpus": 1}).result() == "5"
    assert engine.submit(calls.seen_gpus, {}).result() == "5,6"
    assert engine.submit(calls.seen_gpus, {"gpus": 2}).result() == "5,6"


@pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="two cores are needed")
def test_workers_of_this_machine_are_bound_to_cores(make_engine: MakeEngine, gate: Gate) -> None:
    engine = make_engine(max_workers=2, cpu_affinity="block")
    held = [engine.submit(calls.enter_and_see_cores, {}, gate.path) for _ in range(2)]
    gate.wait_entered()
    gate.wait_entered()
    gate.open(2)
    first, second = (future.result() for future in held)
    assert first
    assert second
    assert not first & second


def test_fields_reach_the_provider_and_its_blocks() -> None:
    provider = fake_provider(launcher="its own")
    executor = GristmillExecutor(
        provider=provider,
        launcher="another",
        submissions=(3, 1.0),
        is_folder_shared=False,
        python="/opt/python",
        available_accelerators=["0", "1"],
        port=7700,
        group="rack1",
    )
    executor.run_dir = "runs"
    placement = placement_of(executor)
    assert isinstance(placement, ProviderNodes)
    assert placement.provider.launcher == "another"
    assert provider.launcher == "its own", "the caller's provider stays as it is"
    assert placement.options.submissions == (3, 1.0)
    placement._hand_over("secret")
    command = placement._command("0", ["here:1"], "secret")
    assert "/opt/python -P -m" in command
    assert "--accelerators list:0:1" in command
    assert "--group rack1" in command
    assert placement.listen == "[::]:7700"
    assert "GRISTMILL_NODE_KEY=secret" in command
    assert "launcher='another'" in repr(executor)


@pytest.mark.parametrize("field", [{"address": "10.0.0.1:7700"}, {"interface": ""}])
def test_where_nodes_find_the_program_is_checked_at_once(field: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=next(iter(field))):
        GristmillExecutor(provider=fake_provider(), **field)


def test_a_launcher_of_the_providers_stays_if_no_other_is_given() -> None:
    provider = fake_provider(launcher="its own")
    executor = GristmillExecutor(provider=provider)
    executor.run_dir = "runs"
    placement_of(executor)
    assert provider.launcher == "its own"


@pytest.mark.parametrize(
    ("fields", "why"),
    [
        ({"launcher": object()}, "a launcher and no provider"),
        ({"cpu_affinity": "block", "nodes": on.local(1)}, "give cpu_affinity to the placement"),
        ({"port": 7700, "nodes": on.local(1)}, "give port and group to the placement"),
        ({"group": "rack", "nodes": on.local(1)}, "give port and group to the placement"),
        ({"available_accelerators": 2, "nodes": on.local(1)}, "leave available_accelerators out"),
    ],
)
def test_fields_without_an_effect_are_refused(fields: dict[str, Any], why: str) -> None:
    with pytest.raises(ConfigurationError, match=why):
        GristmillExecutor(**fields).start()


@pytest.mark.parametrize("wrong", [-1, True, "0,1", ["0:1"], [""]])
def test_accelerators_that_cannot_be(wrong: Any) -> None:
    with pytest.raises(ValueError, match="available_accelerators"):
        GristmillExecutor(available_accelerators=wrong).start()
