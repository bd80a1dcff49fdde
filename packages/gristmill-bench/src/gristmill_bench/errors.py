"""Errors of the suite."""

from __future__ import annotations


class BenchError(Exception):
    """The benchmark cannot be run as requested; the text says why, and which alternatives exist."""


class WrongResult(BenchError):
    """An application has computed a wrong result."""


class RunFailed(BenchError):
    """A run has not finished: ``status`` is the exit status of its process, ``None`` if it was ended by its timeout."""

    def __init__(self, text: str, status: int | None) -> None:
        super().__init__(text)
        self.status = status
