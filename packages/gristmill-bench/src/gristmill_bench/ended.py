"""The record of a task that has ended.

Records are many and live until they are written. They refer to nothing that could refer to them, so the garbage
collector does not track them (``gc=False``).
"""

from __future__ import annotations

import msgspec


class Failure(msgspec.Struct, gc=False):
    """The exception of a task, as text."""

    type: str
    message: str
    traceback: str

    @classmethod
    def of(cls, error: BaseException) -> Failure:
        """Returns the failure for an exception; a worker's traceback is the text of its cause."""
        return cls(type(error).__name__, words(error), words(error.__cause__ or ""))


def words(of: object) -> str:
    """Returns the text of an object, safe for files: escapes what is not UTF-8, and catches errors of ``str``."""
    try:
        text = str(of)
    except Exception as error:
        text = f"its text cannot be had: {type(error).__name__}"
    return text.encode("utf-8", "backslashreplace").decode()


class Ended(msgspec.Struct, gc=False):
    """A task that has ended. Times are seconds since the epoch, by the clock of the host that took them."""

    name: str
    #: The number of the task, counted from 0 in its engine.
    number: int
    #: The numbers of the tasks whose futures it was given.
    parents: tuple[int, ...]
    submitted: float
    received: float
    #: The exception of the task; if there is one, the fields below are unset.
    error: Failure | None = None
    host: str = ""
    process: int = 0
    begun: float = 0.0
    #: The time when it had its arguments.
    ready: float = 0.0
    returned: float = 0.0
    #: The time when it had put its result away.
    put: float = 0.0
    #: Bytes of the pickled result; ``None``: not measured.
    size: int | None = None
    #: The group of workers; empty if there are no groups.
    group: str = ""

    @property
    def times(self) -> tuple[float, float, float, float]:
        """The times when it began, had its arguments, had its result, and had put its result away."""
        return self.begun, self.ready, self.returned, self.put
