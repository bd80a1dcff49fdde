"""What is written down of tasks while they run: it is there however the run ends.

``tasks-planned.jsonl`` has a line for each task when it is submitted, ``tasks-ended.jsonl`` one when it has ended,
``course.json`` what became of the application, once all of them have.
"""

from __future__ import annotations

import os
from pathlib import Path
from threading import Lock
from typing import TypeVar

import msgspec

from gristmill.bench.ended import words
from gristmill.bench.faults.kinds import FailureKind

Line = TypeVar("Line", bound=msgspec.Struct)

_PLANNED, _ENDED, _COURSE = "tasks-planned.jsonl", "tasks-ended.jsonl", "course.json"
#: Errors that have led to one another, and characters of each, that are written down.
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
    """A task that has ended: with its result, an error, or what is the result of another task."""

    number: int
    outcome: str
    #: The types of its error and of what that comes from, and their texts.
    error: str = ""


class Course(msgspec.Struct):
    """What became of the application."""

    #: The error with which it ended, if it did not give its result.
    error: str = ""
    #: The error of a task that was submitted at last; empty: the executor still works.
    probe: str = ""


class Notes:
    """Writes them."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._lock = Lock()
        self._noted: dict[int, str] = {}

    def planned(self, task: Planned) -> None:
        """A task is being submitted."""
        self._add(_PLANNED, task)

    def ended(self, number: int, outcome: str, error: BaseException | None) -> None:
        """A task has ended; says so once, and has been said when this returns, whichever thread does."""
        fate = Fate(number, outcome, text_of(error))
        with self._lock:
            if number not in self._noted:
                self._add(_ENDED, fate)
                self._noted[number] = outcome

    def course(self, error: BaseException | None, probe: BaseException | None) -> None:
        """The application has ended, and all of its tasks."""
        course = Course(text_of(error), text_of(probe))
        (self._folder / _COURSE).write_bytes(msgspec.json.encode(course))

    @property
    def outcomes(self) -> dict[int, str]:
        """Of the tasks that have ended."""
        return dict(self._noted)

    def _add(self, file: str, line: msgspec.Struct) -> None:
        flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND
        opened = os.open(self._folder / file, flags, 0o644)
        try:
            os.write(opened, msgspec.json.encode(line) + b"\n")
        finally:
            os.close(opened)


def text_of(error: BaseException | None) -> str:
    """An error and what it comes from, in lines."""
    lines: list[str] = []
    while error is not None and len(lines) < _CAUSES_MAX:
        lines.append(f"{type(error).__name__}: {words(error)}"[:_TEXT_MAX])
        error = error.__cause__ or error.__context__
    return "\n".join(lines)


def planned(folder: Path) -> list[Planned]:
    """The tasks that were submitted."""
    return _lines(folder / _PLANNED, Planned)


def ended(folder: Path) -> dict[int, Fate]:
    """Those that have ended, by their numbers."""
    return {one.number: one for one in _lines(folder / _ENDED, Fate)}


def course(folder: Path) -> Course | None:
    """What became of the application; ``None``: it has not ended."""
    path = folder / _COURSE
    try:
        return msgspec.json.decode(path.read_bytes(), type=Course)
    except (FileNotFoundError, msgspec.DecodeError):
        # Its program was ended while it wrote, or had no space to.
        return None


def _lines(path: Path, kind: type[Line]) -> list[Line]:
    """What a file has; the last line of a program that was killed may have no end."""
    whole, _, _ = (path.read_bytes() if path.exists() else b"").rpartition(b"\n")
    return msgspec.json.Decoder(kind).decode_lines(whole)
