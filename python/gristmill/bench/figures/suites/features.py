"""What executors can do, and what they do with objects: each cell of two tables is tried."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from statistics import median
from typing import Any, ClassVar

from gristmill.bench.figures.data import Data, Place
from gristmill.bench.figures.figure import Figure, Relation
from gristmill.bench.figures.relations import Check
from gristmill.bench.figures.session import Case, Sample, Session
from gristmill.bench.probes.asking import ask
from gristmill.bench.probes.features import FEATURES, FIRST, FUTURES, RATE
from gristmill.bench.probes.objects import (
    FROM_PROGRAM,
    INTO_PROGRAM,
    INTO_TASKS,
    OBJECTS,
    READ_ONLY,
)
from gristmill.bench.probes.probe import NO, WORDS, YES, Probe

#: Ours, set up to run tasks again whose workers were lost.
RETRYING = "gristmill, retrying"
#: And ours with a worker on each of two nodes, whose agents are on this machine.
ON_NODES = "gristmill, two nodes"
#: Rows that have numbers.
_NUMBERS = (FIRST, RATE)
_POOLS = ("threads", "processes", "loky")
#: Columns, each an executor with its fields.
EXECUTORS: dict[str, dict[str, Any]] = {
    "gristmill": {"name": "gristmill"},
    RETRYING: {"name": "gristmill", "loss_retries": 3},
    ON_NODES: {"name": "gristmill", "nodes": 2},
    **{
        name: {"name": name}
        for name in ("gristmill-parsl", *_POOLS, "dask", "ray", "parsl", "taskvine", "globus")
    },
}
#: The same with one worker each, in which all tasks meet.
_OF_ONE_WORKER = {
    name: fields | {"workers": 1}
    for name, fields in EXECUTORS.items()
    if name not in (RETRYING, ON_NODES)
}


class Probed(Figure):
    """A table of answers: a column for each executor, a row for each thing that is tried."""

    across = "what is tried"
    upward = "answers"
    form = "table"
    probes: ClassVar[Sequence[Probe]]
    executors: ClassVar[Mapping[str, dict[str, Any]]]

    def measure(self, session: Session) -> Data:
        """Asks once: answers do not scatter as times do."""
        cases = [
            Case(name, "each row", partial(self._answers, name, fields))
            for name, fields in self.executors.items()
        ]
        return session.at_most(1).turns(self.empty(), cases)

    def words(self, place: Place, samples: Sequence[float]) -> str:
        """Yes or no, or how it ended; numbers in the rows that have some."""
        if place in _NUMBERS:
            return f"{median(samples):,.0f}" if median(samples) >= 100 else f"{median(samples):.3g}"
        return ", ".join(dict.fromkeys(WORDS[one] for one in samples))

    def _answers(self, name: str, fields: dict[str, Any]) -> Iterator[Sample]:
        for row, answer in ask(fields, self.probes).items():
            yield Sample(name, row, answer)


def all_that_others_can(ours: str) -> Check:
    """A check that no executor can do what ours cannot."""

    def check(data: Data) -> tuple[bool, str]:
        rows = [row for row in data.of(ours) if row not in _NUMBERS]
        lacking = {
            row: [name for name in data.series() if data.of(name).get(row, _NONE)[0] == YES]
            for row in rows
            if data.at(ours, row) != YES
        }
        said = "; ".join(f"{', '.join(who)}: {row}" for row, who in lacking.items() if who)
        return not said, said or f"all of {len(rows)}"

    return check


def can_as_much(one: str, other: str) -> Check:
    """A check that a column can all that another one can."""

    def check(data: Data) -> tuple[bool, str]:
        rows = [row for row in data.of(other) if row not in _NUMBERS and data.at(other, row) == YES]
        lacking = [str(row) for row in rows if data.at(one, row) != YES]
        return not lacking, "; ".join(lacking) or f"all of {len(rows)}"

    return check


_NONE = (NO,)


class Features(Probed):
    """What an executor can do is tried on it: each row is one small program that only ends well where it can. All
    have two workers and their defaults, but for the second column, whose tasks are run again if their workers are
    lost, for the third, whose workers are on two nodes, and for the row of limits, where a task may take a second
    if there is a way to say so. The paper's table is by documentation. It has besides what cannot be tried on one
    machine: which languages there are interfaces for, C++ and Java with Ray, C with TaskVine, and Python alone with
    all others, as with Gristmill; whether the scheduler is distributed, which Gristmill's is not, whose program
    gives tasks to nodes; whether workers are on several machines, which for ours `tests/e2e/test_placed.py` shows
    on nodes with addresses of their own, reached by a shell, by MPI, and by Ray and Dask; and batch systems, which
    `tests/e2e/test_placed_slurm.py` and `tests/e2e/test_blocks.py` show with a real Slurm. Parsl looks for workers
    that have died every thirty seconds. Gristmill gives a task to whichever worker is free: results come to the
    program, or stay on their node where tasks may be repeated, and are as near to one worker of a node as to
    another.
    """

    key = "taps-table-1"
    source = "TaPS, table I"
    title = "What executors can do"
    probes = FEATURES
    executors = EXECUTORS
    relations = (
        Relation(
            "Dask and Parsl know of dependencies, a pool of processes or threads does not",
            lambda data: _knows(data, ("dask", "parsl"), ("processes", "threads")),
        ),
        Relation(
            "Gristmill can, where it is told to repeat, what any of the others can",
            all_that_others_can(RETRYING),
        ),
        Relation(
            "Gristmill can on two nodes what it can on one machine",
            can_as_much(ON_NODES, "gristmill"),
        ),
    )


def _knows(data: Data, some: Sequence[str], others: Sequence[str]) -> tuple[bool, str]:
    answers = {name: data.at(name, FUTURES) for name in (*some, *others)}
    holds = all((answers[name] == YES) == (name in some) for name in answers)
    return holds, ", ".join(f"{name}: {WORDS[one]}" for name, one in answers.items())


class Objects(Probed):
    """Whether what a task gets is its own: a copy, an object of others that it can change, or one that nobody can. All
    have one worker, so that tasks meet in it. The paper says of Ray that arrays among inputs cannot be changed, which
    lets it give all tasks the same memory, and leaves the others open. Dask's tasks share the result of another one in
    their worker as an object. Pools pickle a task when it comes close to a worker, and Parsl in another thread: what
    the program does until then with an argument is in it.
    """

    key = "taps-objects"
    source = "TaPS, section V-A"
    title = "Who can change an argument of a task"
    probes = OBJECTS
    executors = _OF_ONE_WORKER
    relations = (
        Relation(
            "Ray's tasks cannot change arrays that they are given",
            lambda data: _all_are(data, "ray", YES, (READ_ONLY,)),
        ),
        Relation(
            "with Gristmill neither a task nor the program changes what another one has",
            lambda data: _all_are(data, "gristmill", NO, (INTO_PROGRAM, INTO_TASKS, FROM_PROGRAM)),
        ),
    )


def _all_are(data: Data, name: str, answer: float, rows: Sequence[str]) -> tuple[bool, str]:
    answers = [data.at(name, row) for row in rows]
    return all(one == answer for one in answers), ", ".join(WORDS[one] for one in answers)
