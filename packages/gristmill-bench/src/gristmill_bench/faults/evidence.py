"""The evidence that a run with injected failures leaves: how the run ended, and what happened to each task."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from gristmill import instruments
from gristmill_bench.faults import notes
from gristmill_bench.faults.kinds import FailureKind
from gristmill_bench.faults.watched import executions
from gristmill_bench.folder import LOG


@dataclass(frozen=True)
class Task:
    """The evidence about one task."""

    number: int
    #: The injected failure; ``None``: the task was not meant to fail.
    kind: FailureKind | None
    #: Number of times that the task began.
    executions: int
    #: ``result``, ``error``, or ``wrong`` for the result of another task; ``None``: its future never ended.
    outcome: str | None
    #: The error and its causes, one a line.
    error: str = ""
    #: The numbers of the tasks whose results it needs.
    parents: tuple[int, ...] = ()

    @property
    def is_lost(self) -> bool:
        """True if its result did not arrive."""
        return self.outcome != "result"


@dataclass(frozen=True)
class Evidence:
    """The evidence about a run."""

    tasks: tuple[Task, ...]
    #: The exit status of its program; ``None``: the run was ended by its timeout.
    status: int | None
    #: The note of the application about its end; ``None``: it was not written.
    course: notes.Course | None
    #: The last line that the run printed.
    said: str = ""
    #: Number of times that the executor may run a task again after its worker was lost.
    loss_repeats: int = 0

    @property
    def injected(self) -> list[Task]:
        """The tasks that were meant to fail."""
        return [task for task in self.tasks if task.kind is not None]

    @property
    def others(self) -> list[Task]:
        """The tasks that were not meant to fail."""
        return [task for task in self.tasks if task.kind is None]


def read(folder: Path, status: int | None, loss_repeats: int) -> Evidence:
    """Returns the evidence in the folder of a run with this exit status."""
    ended, begun = notes.ended(folder), executions(folder)
    nothing = notes.Fate(-1, "")
    tasks = [
        Task(
            number=one.number,
            kind=one.kind,
            executions=begun.get(one.number, 0),
            outcome=ended.get(one.number, nothing).outcome or None,
            error=ended.get(one.number, nothing).error,
            parents=one.parents,
        )
        for one in notes.planned(folder)
    ]
    said = instruments.last_line(folder / LOG)
    return Evidence(tuple(tasks), status, notes.course(folder), said, loss_repeats)
