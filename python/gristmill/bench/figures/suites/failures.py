"""What becomes of tasks when something fails."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from gristmill.bench import plugins
from gristmill.bench.faults import matrix
from gristmill.bench.faults.tables import Matrix
from gristmill.bench.faults.verdict import Word
from gristmill.bench.figures.data import Data, Place
from gristmill.bench.figures.figure import Figure, Relation
from gristmill.bench.figures.session import Session

#: By number: what samples stand for. Only ever added to.
_WORDS = tuple(Word)
#: Bad ends: nobody can do anything about them.
BAD = (Word.HUNG, Word.LOST, Word.RAN_TWICE)
#: The kinds of failure in which executors differ, with the seconds after which a run hangs. Parsl finds that a worker
#: is gone after half a minute; a task without an end is waited for in vain however long that takes.
_LIMITS_S = {
    "zero-division": 60.0,
    "worker-killed": 60.0,
    "manager-killed": 60.0,
    "node-killed": 60.0,
    "timeout": 20.0,
}
_EXECUTORS = ("gristmill", "processes", "dask", "ray", "parsl")


class Failures(Figure):
    """One of twenty tasks fails: it divides by zero, never ends, or kills its worker, the worker's parent, or all
    processes of the run but the program. What a run leaves says what became of all tasks; the words are those of the
    failure matrix (`docs/failures.md`), which has more kinds. The paper describes such failures, without results.
    """

    key = "taps-failures"
    source = "TaPS, section IV-G"
    title = "What becomes of tasks when something fails"
    across = "what fails"
    upward = "verdicts"
    form = "table"
    relations = (
        Relation(
            "with Gristmill nothing hangs, is lost or runs twice",
            lambda data: _is_sound(data, "gristmill"),
        ),
        Relation(
            "nor where tasks are run again whose workers were lost",
            lambda data: _is_sound(data, "gristmill loss_retries=3"),
        ),
        Relation(
            "where they are, no killed worker, parent or machine costs a result",
            lambda data: _is_recovered(data, "gristmill loss_retries=3"),
        ),
    )

    def measure(self, session: Session) -> Data:
        """Runs the matrix once, whose runs take seconds each, and more where something hangs."""
        data = self.empty()
        names = []
        for name in _EXECUTORS:
            reason = plugins.find("executor", name).missing()
            if reason is None:
                names.append(name)
            else:
                data.missing[name] = reason
        columns = [one for one in matrix.columns(names) if one.fields.get("executor") != "threads"]
        folder = str(session.folder / "runs")
        for type, limit_s in _LIMITS_S.items():
            chosen = {"run": {"folder": folder, "timeout": limit_s}}
            _, found = matrix.measure(chosen, columns, [type], 1)
            add(data, found)
        return data

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


def _verdicts(data: Data, name: str) -> dict[Place, set[Word]]:
    data.of(name)
    return {
        cell.at: {_WORDS[round(one)] for one in cell.samples}
        for cell in data.cells
        if cell.series == name
    }


def _is_sound(data: Data, name: str) -> tuple[bool, str]:
    found = _verdicts(data, name)
    bad = [f"{type}: {word}" for type, words in found.items() for word in sorted(words & {*BAD})]
    return not bad, "; ".join(bad) or f"{len(found)} kinds of failure"


def _is_recovered(data: Data, name: str) -> tuple[bool, str]:
    found = _verdicts(data, name)
    killed = {type: words for type, words in found.items() if str(type).endswith("-killed")}
    good = {Word.RECOVERED, Word.UNHARMED}
    said = "; ".join(f"{type}: {', '.join(sorted(words))}" for type, words in killed.items())
    return all(words <= good for words in killed.values()), said
