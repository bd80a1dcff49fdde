"""The verdict on how an executor has dealt with failures. It uses nothing but the evidence that a run has left."""

from __future__ import annotations

import re
import signal
from contextlib import suppress
from enum import StrEnum
from typing import NamedTuple

from gristmill_bench.faults.evidence import Evidence, Task
from gristmill_bench.faults.kinds import LOSSES, FailureKind


class Word(StrEnum):
    """The outcome of the tasks, best first."""

    UNHARMED = "unharmed"
    RECOVERED = "recovered"
    REPORTED = "reported"
    OTHERS_LOST = "others lost too"
    BROKEN = "pool broken"
    DIED = "program died"
    HUNG = "hung"
    LOST = "lost"
    RAN_TWICE = "ran twice"
    NOT_RUN = "not run"


class Verdict(NamedTuple):
    """A verdict with an optional note."""

    word: Word
    note: str = ""

    def __str__(self) -> str:
        return f"{self.word}: {self.note}" if self.note else str(self.word)


#: Words of which an error must contain one, so that its reader knows what has happened.
_DEATH = r"kill|died|dead|lost|loss|terminated|exit|crash|unavailable|disconnect|closed"
_CAUSES: dict[FailureKind, str] = {
    "dependency": r"InjectedFailure|depend",
    "failure": r"InjectedFailure",
    "import": r"gristmill_has_no_such_module",
    "manager-killed": _DEATH,
    "memory": r"MemoryError|memory",
    "node-killed": _DEATH,
    "timeout": r"time.?out|timed out|time limit|walltime|took longer",
    "ulimit": r"Too many open files",
    "worker-killed": _DEATH,
    "zero-division": r"ZeroDivisionError",
}


def judge(evidence: Evidence) -> Verdict:
    """Returns the verdict on a run. The worst outcome counts: a task that ran twice, then a lost task, then a hang."""
    if not evidence.injected and evidence.status is not None:
        none = f"none of {_tasks(list(evidence.tasks))} was to fail, by app.rate and app.seed"
        return Verdict(Word.NOT_RUN, evidence.said if evidence.status else none)
    twice = _ran_twice(evidence)
    if twice:
        return Verdict(Word.RAN_TWICE, f"{_tasks(twice)} began more often than allowed")
    wrong = [task for task in evidence.tasks if task.outcome == "wrong"]
    if wrong:
        return Verdict(Word.LOST, f"{_tasks(wrong)} returned what others should")
    unresolved = [task for task in evidence.tasks if task.outcome is None]
    if evidence.status is None:
        where = "in its shutdown" if evidence.tasks else "before its first task"
        return Verdict(Word.HUNG, f"{_tasks(unresolved)} never ended" if unresolved else where)
    if evidence.course is None:
        return Verdict(Word.DIED, _end_of(evidence.status))
    if unresolved:
        return Verdict(Word.LOST, f"{_tasks(unresolved)} never ended")
    if evidence.said.startswith("gristmill bench: ") and evidence.status != 0:
        # The application has rejected the results of its tasks.
        return Verdict(Word.LOST, evidence.said)
    verdict = _of_outcomes(evidence)
    if evidence.status != 0:
        end = f"its shutdown failed, {_end_of(evidence.status)}"
        verdict = Verdict(verdict.word, "; ".join(filter(None, (verdict.note, end))))
    return verdict


def _of_outcomes(evidence: Evidence) -> Verdict:
    """Returns the verdict on a run that has ended, with all of its futures."""
    failed = [task for task in evidence.injected if task.is_lost]
    gone = {task.number for task in evidence.tasks if task.is_lost}
    orphans = [
        task for task in evidence.others if task.is_lost and not gone.isdisjoint(task.parents)
    ]
    lost = [task for task in evidence.others if task.is_lost and task not in orphans]
    notes = [_others(lost)] if lost else []
    if orphans:
        notes.append(f"{_tasks(orphans, 'other')} not run because a result is missing")
    if any(not names_cause(task) for task in failed):
        notes.append("the cause is not named")
    again = [task for task in evidence.others if task.executions > 1]
    if again:
        notes.append(f"{_tasks(again, 'other')} ran again")
    if evidence.course is not None and evidence.course.probe:
        word = Word.BROKEN
    elif lost:
        word = Word.OTHERS_LOST
    elif failed:
        word = Word.REPORTED
    elif any(task.executions > 1 for task in evidence.injected):
        word = Word.RECOVERED
    else:
        word = Word.UNHARMED
    return Verdict(word, "; ".join(notes))


def names_cause(task: Task) -> bool:
    """Returns whether the error of a task that was meant to fail names the cause."""
    return task.kind is not None and re.search(_CAUSES[task.kind], task.error, re.I) is not None


def _ran_twice(evidence: Evidence) -> list[Task]:
    """Returns the tasks that began more often than allowed."""
    is_loss = any(task.kind in LOSSES for task in evidence.injected)
    allowed = 1 + (evidence.loss_repeats if is_loss else 0)
    return [task for task in evidence.tasks if task.executions > allowed]


def _others(lost: list[Task]) -> str:
    waiting = [task for task in lost if not task.executions]
    if not waiting:
        return f"{_tasks(lost, 'other')} lost that ran then"
    return f"{_tasks(lost, 'other')} lost, {len(waiting)} of them never seen to begin"


def _tasks(tasks: list[Task], what: str = "task") -> str:
    return f"{len(tasks)} {what}{'s' if len(tasks) != 1 else ''}"


def _end_of(status: int) -> str:
    with suppress(ValueError):
        if status > 128:
            return signal.Signals(status - 128).name
    return f"exit status {status}"
