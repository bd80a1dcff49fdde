"""The notes on tasks that are written while they run, so that they exist however the run ends.

``tasks-planned.jsonl`` gets a line for each task when it is submitted, ``tasks-ended.jsonl`` a line when it has ended.
``course.json`` has the outcome of the application and is written once all tasks have ended.
"""

from __future__ import annotations

import os
from pathlib import Path
from threading import Lock
from typing import TypeVar

import msgspec

from gristmill_bench.ended import words
from gristmill_bench.faults.kinds import FailureKind

Line = TypeVar("Line", bound=msgspec.Struct)

_PLANNED, _ENDED, _COURSE = "tasks-planned.jsonl", "tasks-ended.jsonl", "course.json"
#: The most errors in a chain of causes, and the most characters of each, that are written.
_CAUSES_MAX = 5
_TEXT_MAX = 2_000


class Planned(msgspec.Struct):
    """A task that was submitted."""

    number: int
    name: str
    kind: FailureKind | None
    #: The numbers of the tasks whose results it needs.
    parents: tuple[int, ...] = ()


class Fate(msgspec.Struct):
    """A task that has ended: with its result, with an error, or with the result of another task."""

    number: int
    outcome: str
    #: The types and texts of its error and of that error's causes.
    error: str = ""


class Course(msgspec.Struct):
    """The outcome of the application."""

    #: The error with which the application ended; empty: it gave its result.
    error: str = ""
    #: The error of a last task that was submitted at the end; empty: the executor still works.
    probe: str = ""


class Notes:
    """A writer of notes."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._lock = Lock()
        self._noted: dict[int, str] = {}

    def planned(self, task: Planned) -> None:
        """Notes that a task is being submitted."""
        self._add(_PLANNED, task)

    def ended(self, number: int, outcome: str, error: BaseException | None) -> None:
        """Notes the end of a task, once for each task. The note is written when this returns in any thread."""
        fate = Fate(number, outcome, text_of(error))
        with self._lock:
            if number not in self._noted:
                self._add(_ENDED, fate)
                self._noted[number] = outcome

    def course(self, error: BaseException | None, probe: BaseException | None) -> None:
        """Notes that the application and all of its tasks have ended."""
        course = Course(text_of(error), text_of(probe))
        (self._folder / _COURSE).write_bytes(msgspec.json.encode(course))

    @property
    def outcomes(self) -> dict[int, str]:
        """The outcomes of the tasks that have ended, by number."""
        return dict(self._noted)

    def _add(self, file: str, line: msgspec.Struct) -> None:
        flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND
        opened = os.open(self._folder / file, flags, 0o644)
        try:
            os.write(opened, msgspec.json.encode(line) + b"\n")
        finally:
            os.close(opened)


def text_of(error: BaseException | None) -> str:
    """Returns an error and its causes, one a line."""
    lines: list[str] = []
    while error is not None and len(lines) < _CAUSES_MAX:
        lines.append(f"{type(error).__name__}: {words(error)}"[:_TEXT_MAX])
        error = error.__cause__ or error.__context__
    return "\n".join(lines)


def planned(folder: Path) -> list[Planned]:
    """Returns the tasks that were submitted."""
    return _lines(folder / _PLANNED, Planned)


def ended(folder: Path) -> dict[int, Fate]:
    """Returns the tasks that have ended, by number."""
    return {one.number: one for one in _lines(folder / _ENDED, Fate)}


def course(folder: Path) -> Course | None:
    """Returns the outcome of the application, or ``None`` if it has not ended."""
    path = folder / _COURSE
    try:
        return msgspec.json.decode(path.read_bytes(), type=Course)
    except (FileNotFoundError, msgspec.DecodeError):
        # The program was ended while it wrote, or the disk was full.
        return None


def _lines(path: Path, kind: type[Line]) -> list[Line]:
    """Returns the lines of a file, without an incomplete last line of a killed program."""
    whole, _, _ = (path.read_bytes() if path.exists() else b"").rpartition(b"\n")
    return msgspec.json.Decoder(kind).decode_lines(whole)
