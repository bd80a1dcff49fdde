"""What a look at one thing came to."""

from __future__ import annotations

import dataclasses


@dataclasses.dataclass(frozen=True)
class Finding:
    """One line of the doctor's."""

    #: ``ok``, ``note`` (slower, or missing something that few need) or ``bad`` (does not work).
    grade: str
    what: str
    text: str

    def __str__(self) -> str:
        return f"{self.grade:<5} {self.what:<22} {self.text}"


def ok(what: str, text: str) -> Finding:
    """It works."""
    return Finding("ok", what, text)


def note(what: str, text: str) -> Finding:
    """It works with less."""
    return Finding("note", what, text)


def bad(what: str, text: str) -> Finding:
    """It does not work."""
    return Finding("bad", what, text)
