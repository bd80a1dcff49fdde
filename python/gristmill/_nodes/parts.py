"""Which part of its node an agent has, where several share one: the ranks of a launcher, or what somebody says."""

from __future__ import annotations

import dataclasses
import os
import re

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import TypeVar

    T = TypeVar("T")

#: What launchers say of a rank: its number among all.
_RANK = ("PMIX_RANK", "OMPI_COMM_WORLD_RANK", "PMI_RANK", "PALS_RANKID", "SLURM_PROCID")
#: Its number among those on its node, and how many these are. Both are to be one launcher's: Slurm's variables are also
#: around what another one has started in its jobs.
_RANKS_HERE = (
    ("OMPI_COMM_WORLD_LOCAL_RANK", "OMPI_COMM_WORLD_LOCAL_SIZE"),
    ("MV2_COMM_WORLD_LOCAL_RANK", "MV2_COMM_WORLD_LOCAL_SIZE"),
    ("MPI_LOCALRANKID", "MPI_LOCALNRANKS"),
    ("PALS_LOCAL_RANKID", "PALS_LOCAL_SIZE"),
    ("JSM_NAMESPACE_LOCAL_RANK", "JSM_NAMESPACE_LOCAL_SIZE"),
)
#: One entry of Slurm's counts by node: ``2(x3)`` is 2 on each of three nodes.
_SLURM_COUNT = re.compile(r"([0-9]{1,6})(?:\(x([0-9]{1,6})\))?")


@dataclasses.dataclass(frozen=True)
class Part:
    """One of ``count`` parts of a node, from 0."""

    number: int
    count: int

    def of(self, things: Sequence[T]) -> list[T]:
        """Those of this part, all parts as even as can be; where there are too few the first parts have one each."""
        if len(things) < self.count:
            return list(things[self.number : self.number + 1])
        begin, end = (len(things) * edge // self.count for edge in (self.number, self.number + 1))
        return list(things[begin:end])

    def __str__(self) -> str:
        return f"{self.number}/{self.count}"


#: An agent that has its node to itself.
WHOLE = Part(0, 1)


def read_part(text: str) -> Part:
    """A part such as ``0/2``, the first of two. Raises ``ValueError``."""
    number, _, count = text.partition("/")
    if number.isdigit() and count.isdigit() and int(number) < int(count):
        return Part(int(number), int(count))
    raise ValueError(f"{text!r} is no part of a node such as 0/2, the first of two")


def part_of_rank() -> Part:
    """The part of a rank, from what its launcher says; all of the node where it says nothing."""
    for number_variable, count_variable in _RANKS_HERE:
        count = number_in(count_variable)
        if count:
            number = number_in(number_variable)
            # Where nobody says: launchers give neighbouring numbers to one node as a rule.
            return Part((rank() if number is None else number) % count, count)
    number, count = number_in("SLURM_LOCALID"), _slurm_tasks_here()
    if number is None or not count:
        return WHOLE
    return Part(number % count, count)


def rank() -> int:
    """The number of this rank among those that one launcher has started; 0 without a launcher."""
    return number_in(*_RANK) or 0


def number_in(*variables: str) -> int | None:
    """What the first of these environment variables says that holds a number."""
    texts = (os.environ.get(variable, "") for variable in variables)
    return next((int(text) for text in texts if text.isdigit()), None)


def _slurm_tasks_here() -> int | None:
    """How many tasks the step has on this node; of the job only what was asked for is known."""
    counts: list[int] = []
    for entry in os.environ.get("SLURM_STEP_TASKS_PER_NODE", "").split(","):
        match = _SLURM_COUNT.fullmatch(entry)
        if match is not None:
            counts += [int(match[1])] * int(match[2] or 1)
    node = number_in("SLURM_NODEID") or 0
    return counts[node] if node < len(counts) else number_in("SLURM_NTASKS_PER_NODE")
