"""What a run in which tasks were made to fail has left: how it ended, and what became of each task."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from gristmill import _descent
from gristmill.bench.faults import notes
from gristmill.bench.faults.kinds import FailureKind
from gristmill.bench.faults.watched import executions
from gristmill.bench.folder import LOG


@dataclass(frozen=True)
class Task:
    """What is known of a task."""

    number: int
    #: How it was to fail; ``None``: it was not.
    kind: FailureKind | None
    #: How often it was begun.
    executions: int
    #: ``result``, ``error``, or ``wrong``: the result of another task; ``None``: its future never ended.
    outcome: str | None
    #: The error and what it came from, a line each.
    error: str = ""
    #: The numbers of the tasks whose results it needs.
    parents: tuple[int, ...] = ()

    @property
    def is_lost(self) -> bool:
        """Whether its result did not come."""
        return self.outcome != "result"


@dataclass(frozen=True)
class Evidence:
    """What is known of a run."""

    tasks: tuple[Task, ...]
    #: The exit status of its program; ``None``: it was ended when its time was over.
    status: int | None
    #: What the application has noted when all futures had ended.
    course: notes.Course | None
    #: The last line that the run has printed.
    said: str = ""
    #: How often the executor may run a task again whose worker was lost.
    loss_repeats: int = 0

    @property
    def injected(self) -> list[Task]:
        """The tasks that were to fail."""
        return [task for task in self.tasks if task.kind is not None]

    @property
    def others(self) -> list[Task]:
        """Those that were not."""
        return [task for task in self.tasks if task.kind is None]


def read(folder: Path, status: int | None, loss_repeats: int) -> Evidence:
    """What is in the folder of a run that ended so."""
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
    said = _descent.last_line(folder / LOG)
    return Evidence(tuple(tasks), status, notes.course(folder), said, loss_repeats)
