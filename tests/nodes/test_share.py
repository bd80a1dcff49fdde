"""The share of its node that an agent offers, alone and beside other agents: no resource is offered twice."""

from __future__ import annotations

import argparse
import os
from collections.abc import Mapping

import pytest

from gristmill import _native, _resources
from gristmill._nodes import agent
from gristmill._nodes.accelerators import VARIABLE
from gristmill._nodes.parts import Part, part_of_rank
from gristmill._nodes.share import Share, measure

GIGABYTE = 10**9
#: Variables that launchers set for the second of two ranks of a node.
SECOND_OF_TWO = [
    {"OMPI_COMM_WORLD_LOCAL_RANK": "1", "OMPI_COMM_WORLD_LOCAL_SIZE": "2"},
    {"MPI_LOCALRANKID": "1", "MPI_LOCALNRANKS": "2"},
    {"PMI_RANK": "3", "MPI_LOCALNRANKS": "2"},
    {"PALS_LOCAL_RANKID": "1", "PALS_LOCAL_SIZE": "2"},
    {"SLURM_LOCALID": "1", "SLURM_STEP_TASKS_PER_NODE": "1,2(x3)", "SLURM_NODEID": "2"},
    {"SLURM_LOCALID": "1", "SLURM_NTASKS_PER_NODE": "2"},
]


class Machine:
    """A machine with eight cores, 64 gigabytes and some GPUs."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self._patch = patch
        for name in list(os.environ):
            if name.startswith(("SLURM_", "OMPI_", "PMI", "MPI_", "PALS_", "PARSL_")):
                patch.delenv(name)
        for name in (*_resources.DEVICE_VARIABLES, "ROCR_VISIBLE_DEVICES"):
            patch.delenv(name, raising=False)
        patch.setattr(_resources, "memory_size", lambda: 64 * GIGABYTE)
        patch.setattr(_native, "cpu_count", lambda: len(os.sched_getaffinity(0)))
        patch.setattr(os, "cpu_count", lambda: 8)
        self.bind(range(8))
        self.have_gpus(4)

    def bind(self, cores: range) -> None:
        self._patch.setattr(os, "sched_getaffinity", lambda _: set(cores))

    def have_gpus(self, count: int) -> None:
        self._patch.setattr(_resources, "gpus_of_machine", lambda: count)

    def tell(self, environment: Mapping[str, str]) -> None:
        for name, text in environment.items():
            self._patch.setenv(name, text)

    def share(self, *options: str) -> Share:
        parser = argparse.ArgumentParser()
        agent.add_arguments(parser)
        return measure(parser.parse_args(options))

    def ranks(self, count: int, *options: str) -> list[Share]:
        """Returns the shares that all ranks of this node offer."""
        shares = []
        for number in range(count):
            self.tell({"MPI_LOCALRANKID": str(number), "MPI_LOCALNRANKS": str(count)})
            shares.append(self.share("--rank", *options))
        return shares


@pytest.fixture
def machine(monkeypatch: pytest.MonkeyPatch) -> Machine:
    return Machine(monkeypatch)


def seen(share: Share) -> str | None:
    return share.environment.get("CUDA_VISIBLE_DEVICES")


def test_an_agent_alone_offers_all_that_there_is(machine: Machine) -> None:
    assert machine.share() == Share(8, 64 * GIGABYTE, 4, {}, 8)
    assert machine.share("--rank") == Share(8, 64 * GIGABYTE, 4, {}, 8), (
        "of a launcher that says nothing"
    )
    assert machine.share("--gpus", "1", "--memory", "2", "--workers", "3") == Share(
        3, 2 * GIGABYTE, 1, {}, 8
    )


@pytest.mark.parametrize("told", SECOND_OF_TWO)
def test_launchers_say_which_part_a_rank_has(machine: Machine, told: Mapping[str, str]) -> None:
    machine.tell(told)
    assert part_of_rank() == Part(1, 2)
    share = machine.share("--rank")
    assert (share.workers, share.memory, share.gpus) == (4, 32 * GIGABYTE, 2)
    assert seen(share) == share.environment["HIP_VISIBLE_DEVICES"] == "2,3"


def test_what_slurm_says_around_another_launcher_does_not_count(machine: Machine) -> None:
    machine.tell({"SLURM_LOCALID": "0", "SLURM_NTASKS_PER_NODE": "4"})
    machine.tell(SECOND_OF_TWO[0])
    assert part_of_rank() == Part(1, 2)


def test_bound_ranks_have_their_cores_and_share_the_rest(machine: Machine) -> None:
    machine.bind(range(2, 4))
    shares = machine.ranks(4)
    assert [share.workers for share in shares] == [2] * 4
    assert [share.cores for share in shares] == [2] * 4
    assert [share.memory for share in shares] == [16 * GIGABYTE] * 4
    assert [seen(share) for share in shares] == ["0", "1", "2", "3"]


def test_ranks_that_have_all_cores_of_a_part_of_a_machine_are_not_bound(machine: Machine) -> None:
    machine.bind(range(4))
    machine.tell({"SLURM_CPUS_ON_NODE": "4"})
    assert [share.workers for share in machine.ranks(2)] == [2, 2]


def test_with_fewer_gpus_than_ranks_the_first_have_one_each(machine: Machine) -> None:
    machine.have_gpus(2)
    shares = machine.ranks(4)
    assert [share.gpus for share in shares] == [1, 1, 0, 0]
    assert [seen(share) for share in shares] == ["0", "1", "-1", "-1"]


def test_every_gpu_is_offered_once_whatever_the_numbers(machine: Machine) -> None:
    for count in range(1, 9):
        for gpus in range(9):
            machine.have_gpus(gpus)
            shares = machine.ranks(count)
            assert sum(share.gpus for share in shares) == gpus
            if count > 1 and gpus:
                names = [name for share in shares for name in (seen(share) or "").split(",")]
                assert sorted(set(names) - {"-1"}) == sorted(map(str, range(gpus)))


def test_names_of_gpus_stay_what_they_are(machine: Machine) -> None:
    # Dask's GPU workers all have the same GPUs, in rotated order.
    for number, names in enumerate(["GPU-a,GPU-b", "GPU-b,GPU-a"]):
        machine.tell({"CUDA_VISIBLE_DEVICES": names})
        share = machine.share("--part", f"{number}/2")
        assert (share.gpus, seen(share)) == (1, ["GPU-a", "GPU-b"][number])
    machine.tell({"CUDA_VISIBLE_DEVICES": "10,9"})
    assert [seen(machine.share("--part", part)) for part in ("0/2", "1/2")] == ["9", "10"]


@pytest.mark.parametrize(
    "told",
    [
        {"CUDA_VISIBLE_DEVICES": "1"},
        {"CUDA_VISIBLE_DEVICES": "1", "SLURM_GPUS_ON_NODE": "2"},
        {"CUDA_VISIBLE_DEVICES": "0", "SLURM_GPUS_PER_TASK": "1", "SLURM_GPUS_ON_NODE": "1"},
    ],
)
def test_a_rank_that_is_bound_to_a_gpu_keeps_it(machine: Machine, told: Mapping[str, str]) -> None:
    machine.tell(told)
    assert [(share.gpus, seen(share)) for share in machine.ranks(2)] == [(1, None)] * 2


def test_the_gpus_of_a_job_are_not_those_of_a_rank(machine: Machine) -> None:
    machine.tell({"CUDA_VISIBLE_DEVICES": "0,1", "SLURM_GPUS_ON_NODE": "2"})
    assert [seen(share) for share in machine.ranks(2)] == ["0", "1"]


def test_what_is_asked_for_is_of_each_agent(machine: Machine) -> None:
    shares = machine.ranks(3, "--gpus", "2", "--memory", "9")
    assert [share.memory for share in shares] == [9 * GIGABYTE] * 3
    assert [seen(share) for share in shares] == ["0,1", "2,3", "-1"]
    machine.have_gpus(0)
    assert [share.gpus for share in machine.ranks(2)] == [0, 0]
    assert [seen(share) for share in machine.ranks(2, "--gpus", "1")] == ["0", "1"], "believed"


def test_workers_of_parts_are_bound_to_cores_of_their_own(machine: Machine) -> None:
    shares = machine.ranks(2, "--workers", "2", "--cpu-affinity", "block")
    cores = [share.environment["GRISTMILL_NODE_CORES"] for share in shares]
    assert cores == ["0,1:2,3", "4,5:6,7"]
    machine.bind(range(2))
    machine.tell({"SLURM_CPUS_ON_NODE": "2"})
    shares = machine.ranks(4, "--cpu-affinity", "block")
    assert [share.environment["GRISTMILL_NODE_CORES"] for share in shares] == ["0", "1", "0", "1"]


@pytest.mark.parametrize(
    ("accelerators", "pinned", "gpus", "pins"),
    [
        ("3", "0:1:2", 3, (0b1, 0b10, 0b100)),
        ("8", "0:0:1:1:2:2:3:3", 4, (1, 1, 2, 2, 4, 4, 8, 8)),
        ("list:GPU-a:GPU-b", "GPU-a:GPU-b", 2, (0b1, 0b10)),
        ("list:0,1:2,3", "0,1:2,3", 4, (0b11, 0b1100)),
    ],
)
def test_there_are_no_more_workers_than_gpus_to_pin_them_to(
    machine: Machine, accelerators: str, pinned: str, gpus: int, pins: tuple[int, ...]
) -> None:
    share = machine.share("--accelerators", accelerators)
    assert share.environment == {VARIABLE: pinned}
    assert (share.workers, share.gpus) == (len(pinned.split(":")), gpus)
    assert share.pins == pins


def test_agents_that_may_use_some_cores_of_a_node_choose_different_ones(machine: Machine) -> None:
    first = os.getpid() * 100  # no other process uses these
    machine.bind(range(first, first + 8))
    options = ["--cores", "3", "--workers", "3", "--cpu-affinity", "block"]
    shares = [machine.share(*options) for _ in range(3)]
    places = [
        [int(core) - first for core in share.environment["GRISTMILL_NODE_CORES"].split(":")]
        for share in shares
    ]
    assert places == [[0, 1, 2], [3, 4, 5], [0, 6, 7]], "two are left for the last one"
    assert {share.cores for share in shares} == {3}
    assert machine.share("--cores", "2", "--workers", "1").cores == 2
    named = machine.share("--cores", "1", "--cpu-affinity", f"list:{first}:{first + 7}")
    assert named.environment["GRISTMILL_NODE_CORES"] == f"{first}:{first + 7}"
    with pytest.raises(ValueError, match="at least one core"):
        machine.share("--cores", "0")


def test_workers_of_a_part_are_pinned_to_its_gpus(machine: Machine) -> None:
    assert machine.share("--accelerators", "2", "--part", "1/2").environment[VARIABLE] == "2:3"


@pytest.mark.parametrize(
    ("options", "why"),
    [
        (["--part", "2/2"], "'2/2' is not a part of a node such as 0/2"),
        (["--part", "half"], "is not a part of a node"),
        (["--gpus", "17"], "at most 16 GPUs"),
        (["--accelerators", "0"], "neither a number of GPUs nor a list"),
        (["--accelerators", "list:"], "neither a number of GPUs nor a list"),
    ],
)
def test_what_no_node_can_offer_is_refused(machine: Machine, options: list[str], why: str) -> None:
    with pytest.raises(ValueError, match=why):
        machine.share(*options)
