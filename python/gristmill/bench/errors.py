"""What the suite refuses, in words."""

from __future__ import annotations


class BenchError(Exception):
    """A benchmark cannot be run as it is asked for; the text says why, and what there is instead."""


class WrongResult(BenchError):
    """An application has computed something else than it should."""


class RunFailed(BenchError):
    """A run has not come to its end: ``status`` is that of its process, ``None`` if it was ended after its time."""

    def __init__(self, text: str, status: int | None) -> None:
        super().__init__(text)
        self.status = status
