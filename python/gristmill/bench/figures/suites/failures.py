"""What becomes of tasks when something fails."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import ClassVar

from gristmill.bench import plugins
from gristmill.bench.faults import matrix
from gristmill.bench.faults.tables import Matrix
from gristmill.bench.faults.verdict import Word
from gristmill.bench.figures.data import Data, Place
from gristmill.bench.figures.figure import Figure, Relation
from gristmill.bench.figures.session import Session

#: By number: what samples stand for. Only ever added to.
_WORDS = tuple(Word)
#: What no program can make good: some task has no end, or another one than its own, or nothing goes on.
BAD = (Word.BROKEN, Word.DIED, Word.HUNG, Word.LOST, Word.RAN_TWICE)
#: What takes along, or may, what ran beside the task that failed.
_SHARED = ("manager-killed", "node-killed", "random")
#: What harms no other task.
_ALONE = tuple(type for type in matrix.TYPES if type not in _SHARED)
#: What kills the worker of a task, its parent, or all processes.
_KILLED = ("worker-killed", "manager-killed", "node-killed")
#: Seconds after which a run hangs. Parsl finds that a worker is gone after half a minute; a task without an end is
#: waited for in vain however long that takes.
_LIMIT_S = 60.0
_LIMITS_S = {"timeout": 20.0}
_OURS, _RETRYING = "gristmill", "gristmill loss_retries=3"
#: Executors that run on ours, in whatever way.
_OF_OURS = ("gristmill", "gristmill-parsl")


class Failures(Figure):
    """One of twenty tasks fails, by each kind of failure of the suite; `random` draws a kind for each of four. What a
    run leaves says what became of all tasks; the words are those of the failure matrix (`docs/failures.md`), and the
    columns all executors that are installed, in each way that they have to treat failures. The paper names such
    failures, without results. Whoever kills the parent of Gristmill's workers, or all of its processes, ends what runs
    beside the task that was to fail: unless tasks may be repeated, these end with an error too, which says so.
    """

    key = "taps-failures"
    source = "TaPS, section IV-G"
    title = "What becomes of tasks when something fails"
    across = "what fails"
    upward = "verdicts"
    form = "table"
    elsewhere = "../failures.md"
    #: What is measured; all executors without names.
    types: ClassVar[Sequence[str]] = matrix.TYPES
    executors: ClassVar[Sequence[str] | None] = None
    relations = (
        Relation(
            "with Gristmill, however it runs, each task ends with its result or an error, none runs twice, and further"
            " ones run",
            lambda data: _are_without(data, BAD, matrix.TYPES),
        ),
        Relation(
            "only where more than a worker was killed do others fail than the tasks that were to",
            lambda data: _is_without(data, _OURS, (*BAD, Word.OTHERS_LOST), _ALONE),
        ),
        Relation(
            "where tasks are run again whose workers were lost, no others fail whatever was killed",
            lambda data: _is_without(data, _RETRYING, (*BAD, Word.OTHERS_LOST), matrix.TYPES),
        ),
        Relation(
            "there no killed worker, parent or machine costs a result",
            lambda data: _is_recovered(data, _RETRYING),
        ),
    )

    def measure(self, session: Session) -> Data:
        """Runs the matrix once, whose runs take seconds each, and more where something hangs."""
        data = self.empty()
        columns = [one for one in matrix.columns(None) if self._is_asked_for(one.name)]
        columns.sort(key=lambda one: one.name != _OURS)
        for name in plugins.names("executor"):
            reason = plugins.find("executor", name).missing()
            if reason is not None and self._is_asked_for(name):
                data.missing[name] = reason
        folder = str(session.folder / "runs")
        for type in self.types:
            limit_s = _LIMITS_S.get(type, _LIMIT_S)
            chosen = {"run": {"folder": folder, "timeout": limit_s}}
            _, found = matrix.measure(chosen, columns, [type], 1)
            add(data, found)
        for column in columns:
            told(data, column.label)
        return data

    def _is_asked_for(self, name: str) -> bool:
        return self.executors is None or name in self.executors

    def words(self, place: Place, samples: Sequence[float]) -> str:
        """The verdicts, with their counts where they differ."""
        found = Counter(str(_WORDS[round(one)]) for one in samples)
        if len(found) == 1:
            return next(iter(found))
        return ", ".join(f"{word} ({count})" for word, count in found.items())


def add(data: Data, found: Matrix) -> None:
    """Adds the verdicts of a matrix. What could not be run is missing."""
    for type, row in found.items():
        for label, cells in row.items():
            for cell in cells:
                if cell.verdict.word is Word.NOT_RUN:
                    data.missing[f"{label}, {type}"] = cell.verdict.note
                else:
                    data.add(label, type, _WORDS.index(cell.verdict.word))


def told(data: Data, name: str) -> None:
    """Has the data say once of an executor that could not be run at all why."""
    reasons = [f"{name}, {type}" for type in matrix.TYPES if f"{name}, {type}" in data.missing]
    if reasons and name not in data.series():
        first = data.missing[reasons[0]]
        for one in reasons:
            del data.missing[one]
        data.missing[name] = first


def _verdicts(data: Data, name: str, types: Sequence[str]) -> dict[str, set[Word]]:
    """What became of tasks on an executor, by kind of failure; ``LookupError``: some kind was not measured."""
    data.of(name)
    found = {
        cell.at: {_WORDS[round(one)] for one in cell.samples}
        for cell in data.cells
        if cell.series == name
    }
    absent = [type for type in types if not found.get(type)]
    if absent:
        raise LookupError(f"{name} was not measured with {', '.join(absent)}")
    return {type: found[type] for type in types}


def _is_without(
    data: Data, name: str, bad: Sequence[Word], types: Sequence[str]
) -> tuple[bool, str]:
    found = _verdicts(data, name, types)
    said = [f"{type}: {word}" for type, words in found.items() for word in sorted(words & {*bad})]
    return not said, "; ".join(said) or f"{len(found)} kinds of failure"


def _are_without(data: Data, bad: Sequence[Word], types: Sequence[str]) -> tuple[bool, str]:
    """Whether none of our columns has such a word."""
    found = {
        name: _is_without(data, name, bad, types)
        for name in [_OURS, *(one for one in data.series() if one.split()[0] in _OF_OURS)]
    }
    said = [f"{name}: {words}" for name, (is_without, words) in found.items() if not is_without]
    return not said, "; ".join(said) or f"{len(types)} kinds of failure, {len(found)} ways to run"


def _is_recovered(data: Data, name: str) -> tuple[bool, str]:
    found = _verdicts(data, name, _KILLED)
    good = {Word.RECOVERED, Word.UNHARMED}
    said = "; ".join(f"{type}: {', '.join(sorted(words))}" for type, words in found.items())
    return all(words <= good for words in found.values()), said
