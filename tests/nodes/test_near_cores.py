"""The cores that workers and tasks of several cores are bound to, on machines with several NUMA nodes and nodes with
several clients.
"""

from __future__ import annotations

import os
import shlex
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from gristmill import Executor, on
from gristmill._nodes import affinity
from gristmill._nodes.local import LocalNodes
from gristmill.parsl import GristmillExecutor

import calls
from stage import Gate

CORES = sorted(os.sched_getaffinity(0))
HALF = len(CORES) // 2
#: The cores of this machine, as if each half were a NUMA node.
LEFT, RIGHT = set(CORES[:HALF]), set(CORES[HALF:])

two_cores = pytest.mark.skipif(len(CORES) < 2, reason="two cores are needed")

#: A replacement for the interpreter that reads the machine's NUMA nodes from another folder.
_INTERPRETER = """#!/bin/sh
shift 3
exec {python} -c '
import sys
from gristmill._nodes import affinity
affinity.FOLDER = "{folder}"
from gristmill import _cli
sys.exit(_cli.main(sys.argv[1:]))
' "$@"
"""


def describe(folder: Path, *lists: str) -> str:
    """Makes a folder that describes a machine with these cores in its NUMA nodes; returns it."""
    for number, cores in enumerate(lists):
        (folder / f"node{number}").mkdir()
        (folder / f"node{number}" / "cpulist").write_text(f"{cores}\n")
    return str(folder)


@pytest.fixture
def halves(tmp_path: Path) -> str:
    """Returns the folder of a machine whose halves are NUMA nodes."""
    folder = tmp_path / "memories"
    folder.mkdir()
    return describe(folder, *(",".join(map(str, sorted(half))) for half in (LEFT, RIGHT)))


@pytest.fixture
def interpreter(tmp_path: Path, halves: str) -> str:
    path = tmp_path / "python"
    path.write_text(_INTERPRETER.format(python=shlex.quote(sys.executable), folder=halves))
    path.chmod(0o755)
    return str(path)


@pytest.mark.parametrize(
    ("lists", "workers", "sets"),
    [
        (["0-3", "4-7"], 2, [[0, 1, 2, 3], [4, 5, 6, 7]]),
        (["0-3", "4-7"], 4, [[0, 1, 2, 3], [4, 5, 6, 7]] * 2),
        (["0-5", "6-7"], 4, [[0, 1, 2, 3, 4, 5]] * 3 + [[6, 7]]),
        (["0-3", "4-7"], 1, [[0, 1, 2, 3, 4, 5, 6, 7]]),
        (["0-2", "3-5"], 3, [[0, 1, 2], [3, 4, 5], [0, 1, 2, 3, 4, 5]]),
        (["0-1", "2-3", ""], 8, [[0, 1], [2, 3]] * 4),
    ],
)
def test_a_worker_has_its_share_near_to_one_memory_where_there_is_room(
    lists: list[str],
    workers: int,
    sets: list[list[int]],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(affinity, "FOLDER", describe(tmp_path, *lists))
    cores = sorted({core for one in sets for core in one})
    assert affinity.core_sets("numa", cores, workers) == sets


def test_memories_are_counted_as_the_machine_does(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(affinity, "FOLDER", describe(tmp_path, *map(str, range(12))))
    assert affinity.numa_parts(range(12)) == [[core] for core in range(12)]
    assert affinity.numa_nodes([[0], [2, 3], [11]], 4) == [1, 0b110, 0b1000, 1]


@two_cores
def test_leases_of_one_node_are_bound_to_different_cores(
    keys: tuple[str, str], start_node: Callable[..., str], gate: Gate
) -> None:
    client, node = keys
    address = start_node(node, "--workers", "2", "--cpu-affinity", "block")
    programs = [Executor(1, nodes=on.hosts(address, key=client)) for _ in range(2)]
    with programs[0], programs[1]:
        held = [program.submit(calls.enter_and_see_cores, gate.path) for program in programs]
        gate.wait_entered(), gate.wait_entered()
        gate.open(2)
        one, other = (future.result() for future in held)
    assert one
    assert other
    assert not one & other


def test_leases_of_one_node_are_pinned_to_different_gpus(
    keys: tuple[str, str], start_node: Callable[..., str], gate: Gate
) -> None:
    client, node = keys
    address = start_node(node, "--accelerators", "list:GPU-a:GPU-b", "--workers", "2")
    programs = [Executor(1, nodes=on.hosts(address, key=client)) for _ in range(2)]
    with programs[0], programs[1]:
        held = [program.submit(calls.enter_and_see_gpus, gate.path) for program in programs]
        gate.wait_entered(), gate.wait_entered()
        gate.open(2)
        seen = [future.result() for future in held]
        assert sorted(seen) == ["GPU-a", "GPU-b"]
        asking = [program.options(gpus=1).submit(calls.seen_gpus) for program in programs]
        assert [future.result() for future in asking] == seen, "each was granted what it sees"


@two_cores
def test_a_wide_task_has_the_cores_of_one_memory(interpreter: str, gate: Gate) -> None:
    placement = LocalNodes(1, 2 * len(CORES))
    placement.options = ("--cpu-affinity", "numa")
    placement.python = interpreter
    with Executor(nodes=placement) as executor:
        wide = executor.options(cores=len(CORES))
        held = [wide.submit(calls.enter_and_see_cores, gate.path) for _ in range(2)]
        gate.wait_entered(), gate.wait_entered()
        gate.open(2)
        assert sorted((future.result() for future in held), key=min) == [LEFT, RIGHT]
        assert wide.submit(calls.seen_cores).result() in (LEFT, RIGHT)
        wider = executor.options(cores=len(CORES) + 1)
        assert wider.submit(calls.seen_cores).result() == LEFT | RIGHT, (
            "no memory has so many near to it"
        )
        assert executor.submit(calls.seen_cores).result() in (LEFT, RIGHT)


@two_cores
def test_a_wide_task_has_the_cores_of_its_places_and_no_others(gate: Gate) -> None:
    placement = LocalNodes(1, 2 * len(CORES))
    placement.options = ("--cpu-affinity", "block")
    with Executor(nodes=placement) as executor:
        submit = executor.options(cores=2).submit
        held = [submit(calls.enter_and_see_cores, gate.path) for _ in range(len(CORES))]
        for _ in held:
            gate.wait_entered()
        gate.open(len(held))
        found = [future.result() for future in held]
        assert max(map(len, found)) <= 2
        assert set().union(*found) == set(CORES)
        # Payloads that do not fit into a record are in the arena; the CPU slots stay in the record.
        many = [executor.submit(calls.same, bytes(60_000)) for _ in range(4)]
        assert len(submit(calls.seen_cores, *many).result()) <= 2


@two_cores
def test_wide_tasks_of_this_machine_are_near_to_one_memory(
    halves: str, monkeypatch: pytest.MonkeyPatch, gate: Gate
) -> None:
    monkeypatch.setattr(affinity, "FOLDER", halves)
    engine = GristmillExecutor(max_workers=4, cpu_affinity="numa")
    engine.start()
    try:
        held = [engine.submit(calls.enter_and_see_cores, {"cores": 2}, gate.path) for _ in range(2)]
        gate.wait_entered(), gate.wait_entered()
        gate.open(2)
        assert sorted((future.result() for future in held), key=min) == [LEFT, RIGHT]
    finally:
        engine.shutdown()


def test_agents_on_one_machine_divide_its_threads(gate: Gate) -> None:
    with Executor(nodes=LocalNodes(2, 1)) as executor:
        held = [executor.submit(calls.enter, gate.path) for _ in range(2)]
        gate.wait_entered(), gate.wait_entered()
        gate.open(2)
        assert [future.result() for future in held] == [None, None]
        assert executor.submit(calls.seen_threads).result() == str(max(1, len(CORES) // 2))
