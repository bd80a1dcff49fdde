"""Abilities of executors, and their treatment of objects: each cell of two tables is tried."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from statistics import median
from typing import Any, ClassVar

from gristmill_bench.figures.data import Data, Place
from gristmill_bench.figures.figure import Figure, Relation
from gristmill_bench.figures.relations import Check
from gristmill_bench.figures.session import Case, Sample, Session
from gristmill_bench.probes.asking import ask
from gristmill_bench.probes.features import FEATURES, FIRST, FUTURES, RATE
from gristmill_bench.probes.objects import (
    FROM_PROGRAM,
    INTO_PROGRAM,
    INTO_TASKS,
    OBJECTS,
    READ_ONLY,
)
from gristmill_bench.probes.probe import NO, WORDS, YES, Probe

#: Gristmill, set to run tasks again after their workers are lost.
RETRYING = "gristmill, retrying"
#: Gristmill with a worker on each of two nodes, whose agents are on this machine.
ON_NODES = "gristmill, two nodes"
#: Rows with numbers.
_NUMBERS = (FIRST, RATE)
_POOLS = ("threads", "processes", "loky")
#: The columns, each an executor with its fields.
EXECUTORS: dict[str, dict[str, Any]] = {
    "gristmill": {"name": "gristmill"},
    RETRYING: {"name": "gristmill", "loss_retries": 3},
    ON_NODES: {"name": "gristmill", "nodes": 2},
    **{
        name: {"name": name}
        for name in ("gristmill-parsl", *_POOLS, "dask", "ray", "parsl", "taskvine", "globus")
    },
}
#: The columns with one worker each, in which all tasks meet.
_OF_ONE_WORKER = {
    name: fields | {"workers": 1}
    for name, fields in EXECUTORS.items()
    if name not in (RETRYING, ON_NODES)
}


class Probed(Figure):
    """A table of answers: a column for each executor, a row for each ability that is tried."""

    across = "what is tried"
    upward = "answers"
    form = "table"
    probes: ClassVar[Sequence[Probe]]
    executors: ClassVar[Mapping[str, dict[str, Any]]]

    def measure(self, session: Session) -> Data:
        """Asks once: answers do not vary as times do."""
        cases = [
            Case(name, "each row", partial(self._answers, name, fields))
            for name, fields in self.executors.items()
        ]
        return session.at_most(1).turns(self.empty(), cases)

    def words(self, place: Place, samples: Sequence[float]) -> str:
        """Returns yes or no, or how the program ended; in the rows with numbers, the median."""
        if place in _NUMBERS:
            return f"{median(samples):,.0f}" if median(samples) >= 100 else f"{median(samples):.3g}"
        return ", ".join(dict.fromkeys(WORDS[one] for one in samples))

    def _answers(self, name: str, fields: dict[str, Any]) -> Iterator[Sample]:
        for row, answer in ask(fields, self.probes).items():
            yield Sample(name, row, answer)


def all_that_others_can(ours: str) -> Check:
    """Returns a check that no executor has an ability that the column ``ours`` lacks."""

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
    """Returns a check that a column has all abilities of another one."""

    def check(data: Data) -> tuple[bool, str]:
        rows = [row for row in data.of(other) if row not in _NUMBERS and data.at(other, row) == YES]
        lacking = [str(row) for row in rows if data.at(one, row) != YES]
        return not lacking, "; ".join(lacking) or f"all of {len(rows)}"

    return check


_NONE = (NO,)


class Features(Probed):
    """Abilities of executors, each tried by one small program that ends well only if the executor has the ability. All
    have two workers and their defaults, with three exceptions: the second column runs tasks again if their workers are
    lost, the third has workers on two nodes, and in the row of limits a task is limited to a second if the executor can
    set such a limit. The paper's table is based on documentation. It also has columns that cannot be tried on one
    machine. Language interfaces: Ray has C++ and Java, TaskVine has C, and all others, Gristmill included, have Python
    alone. A distributed scheduler: Gristmill's is not distributed, its program gives tasks to nodes. Workers on several
    machines: for Gristmill, `tests/e2e/test_placed.py` shows them on nodes with addresses of their own, reached by a
    shell, by MPI, and by Ray and Dask. Batch systems: `tests/e2e/test_placed_slurm.py` and `tests/e2e/test_blocks.py`
    show them with a real Slurm. Parsl looks every thirty seconds for workers that have died. Gristmill gives a task to
    any free worker: results come to the program, or stay on their node if tasks may be repeated, and each worker of a
    node has equally fast access to them.
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
    """The kind of object that a task gets as an argument: its own copy, a shared object that it can change, or a shared
    object that cannot be changed. All executors have one worker, so that tasks meet in it. The paper says of Ray that
    arrays among the inputs cannot be changed, which lets Ray give all tasks the same memory; it does not say so of the
    others. Dask's tasks share the result of another task in their worker as an object. Pools pickle a task only shortly
    before a worker takes it, and Parsl pickles it in another thread: changes that the program makes to an argument
    until then reach the task.
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
