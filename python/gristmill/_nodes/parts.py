"""The part of its node that an agent offers if several agents share the node, by their ranks or by an option."""

from __future__ import annotations

import dataclasses
import os
import re

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import TypeVar

    T = TypeVar("T")

#: The variables with a rank's number among all ranks of its launcher.
_RANK = ("PMIX_RANK", "OMPI_COMM_WORLD_RANK", "PMI_RANK", "PALS_RANKID", "SLURM_PROCID")
#: The variables with a rank's number among the ranks of its node, and with the number of these. Both must come from one
#: launcher: Slurm's variables are also set around other launchers in its jobs.
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
    """One of ``count`` parts of a node, counted from 0."""

    number: int
    count: int

    def of(self, things: Sequence[T]) -> list[T]:
        """Returns the things of this part.

        Parts are as even as possible. With too few things the first parts get one each.
        """
        if len(things) < self.count:
            return list(things[self.number : self.number + 1])
        begin, end = (len(things) * edge // self.count for edge in (self.number, self.number + 1))
        return list(things[begin:end])

    def __str__(self) -> str:
        return f"{self.number}/{self.count}"


#: The part of an agent that has its node to itself.
WHOLE = Part(0, 1)


def read_part(text: str) -> Part:
    """Parses a part such as ``0/2``, the first of two. Raises ``ValueError``."""
    number, _, count = text.partition("/")
    if number.isdigit() and count.isdigit() and int(number) < int(count):
        return Part(int(number), int(count))
    raise ValueError(f"{text!r} is not a part of a node such as 0/2, the first of two")


def part_of_rank() -> Part:
    """Returns the part of this rank by its launcher's variables, or the whole node without such variables."""
    for number_variable, count_variable in _RANKS_HERE:
        count = number_in(count_variable)
        if count:
            number = number_in(number_variable)
            # Without a number on the node: launchers usually give neighbouring numbers to one node.
            return Part((rank() if number is None else number) % count, count)
    number, count = number_in("SLURM_LOCALID"), _slurm_tasks_here()
    if number is None or not count:
        return WHOLE
    return Part(number % count, count)


def rank() -> int:
    """Returns the number of this rank among all ranks of its launcher; 0 without a launcher."""
    return number_in(*_RANK) or 0


def number_in(*variables: str) -> int | None:
    """Returns the value of the first of these environment variables that holds a number, or ``None``."""
    texts = (os.environ.get(variable, "") for variable in variables)
    return next((int(text) for text in texts if text.isdigit()), None)


def _slurm_tasks_here() -> int | None:
    """Returns the number of the step's tasks on this node, or the requested number if the step has no counts."""
    counts: list[int] = []
    for entry in os.environ.get("SLURM_STEP_TASKS_PER_NODE", "").split(","):
        match = _SLURM_COUNT.fullmatch(entry)
        if match is not None:
            counts += [int(match[1])] * int(match[2] or 1)
    node = number_in("SLURM_NODEID") or 0
    return counts[node] if node < len(counts) else number_in("SLURM_NTASKS_PER_NODE")
