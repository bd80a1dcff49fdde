"""Results of the checks."""

from __future__ import annotations

import dataclasses


@dataclasses.dataclass(frozen=True)
class Finding:
    """One line of the doctor's output."""

    #: ``ok``, ``note`` (slower, or missing something that few need) or ``bad`` (does not work).
    grade: str
    what: str
    text: str

    def __str__(self) -> str:
        return f"{self.grade:<5} {self.what:<22} {self.text}"


def ok(what: str, text: str) -> Finding:
    """Returns the finding that something works."""
    return Finding("ok", what, text)


def note(what: str, text: str) -> Finding:
    """Returns the finding that something works with less."""
    return Finding("note", what, text)


def bad(what: str, text: str) -> Finding:
    """Returns the finding that something does not work."""
    return Finding("bad", what, text)
