"""The outcome of tasks when something fails."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import ClassVar

from gristmill_bench import plugins
from gristmill_bench.faults import matrix
from gristmill_bench.faults.tables import Matrix
from gristmill_bench.faults.verdict import Word
from gristmill_bench.figures.data import Data, Place
from gristmill_bench.figures.figure import Figure, Relation
from gristmill_bench.figures.session import Session

#: The words that samples stand for, by index. New words are only ever appended.
_WORDS = tuple(Word)
#: Outcomes that a program cannot repair: a task has no end or a wrong one, or nothing runs any more.
BAD = (Word.BROKEN, Word.DIED, Word.HUNG, Word.LOST, Word.RAN_TWICE)
#: Failures that end, or may end, other tasks that run beside the failing one.
_SHARED = ("manager-killed", "node-killed", "random")
#: Failures that affect no other task.
_ALONE = tuple(type for type in matrix.TYPES if type not in _SHARED)
#: Failures that kill the worker of a task, its parent, or all processes.
_KILLED = ("worker-killed", "manager-killed", "node-killed")
#: Seconds after which a run counts as hung. Parsl notices a lost worker after half a minute. A task without an end
#: never ends, so a shorter limit is enough for it.
_LIMIT_S = 60.0
_LIMITS_S = {"timeout": 20.0}
_OURS, _RETRYING = "gristmill", "gristmill loss_retries=3"
#: Executors that run on Gristmill's, in any mode.
_OF_OURS = ("gristmill", "gristmill-parsl")


class Failures(Figure):
    """One of twenty tasks fails, by each kind of failure of the suite; `random` draws a kind for each of four. The
    outcome of all tasks is judged by what a run leaves. The words are those of the failure matrix
    (`docs/bench/failures.md`), and the columns are all installed executors, in each of their ways to treat failures.
    The paper names such failures, without results. A failure that kills the parent of Gristmill's workers, or all of
    its processes, also ends the tasks that run beside the failing one: unless tasks may be repeated, these end with an
    error too, which says so.
    """

    key = "taps-failures"
    source = "TaPS, section IV-G"
    title = "What becomes of tasks when something fails"
    across = "what fails"
    upward = "verdicts"
    form = "table"
    elsewhere = "../bench/failures-measured.md"
    #: The types of failure and the executors that are measured; ``None``: all executors.
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
        """Runs the matrix once: its runs take seconds each, and longer if something hangs."""
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
        """Returns the verdicts, with their counts if they differ."""
        found = Counter(str(_WORDS[round(one)]) for one in samples)
        if len(found) == 1:
            return next(iter(found))
        return ", ".join(f"{word} ({count})" for word, count in found.items())


def add(data: Data, found: Matrix) -> None:
    """Adds the verdicts of a matrix. Cells that could not be run are noted as missing."""
    for type, row in found.items():
        for label, cells in row.items():
            for cell in cells:
                if cell.verdict.word is Word.NOT_RUN:
                    data.missing[f"{label}, {type}"] = cell.verdict.note
                else:
                    data.add(label, type, _WORDS.index(cell.verdict.word))


def told(data: Data, name: str) -> None:
    """Merges the reasons of an executor that could not be run at all into one."""
    reasons = [f"{name}, {type}" for type in matrix.TYPES if f"{name}, {type}" in data.missing]
    if reasons and name not in data.series():
        first = data.missing[reasons[0]]
        for one in reasons:
            del data.missing[one]
        data.missing[name] = first


def _verdicts(data: Data, name: str, types: Sequence[str]) -> dict[str, set[Word]]:
    """Returns the verdicts of an executor by kind of failure; raises ``LookupError`` if a kind was not measured."""
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
    """Returns whether no column of Gristmill's executors has one of the words ``bad``."""
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
