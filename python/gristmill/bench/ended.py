"""What is known of a task that has ended.

Records are many and live until they are written, so they are nothing that the collector of garbage looks at
(``gc=False``): they refer to nothing that could refer to them.
"""

from __future__ import annotations

import msgspec


class Failure(msgspec.Struct, gc=False):
    """What a task has raised, as text."""

    type: str
    message: str
    traceback: str

    @classmethod
    def of(cls, error: BaseException) -> Failure:
        """What there is to say of it: workers' tracebacks come as causes."""
        return cls(type(error).__name__, words(error), words(error.__cause__ or ""))


def words(of: object) -> str:
    """What it says, as files can have it: names of files in it may be no UTF-8, and some errors cannot say anything."""
    try:
        text = str(of)
    except Exception as error:
        text = f"its text cannot be had: {type(error).__name__}"
    return text.encode("utf-8", "backslashreplace").decode()


class Ended(msgspec.Struct, gc=False):
    """A task that has ended. Times are seconds since the epoch, by the clock of where they were taken."""

    name: str
    #: Counts the tasks of an engine, from 0.
    number: int
    #: The numbers of the tasks whose futures it was given.
    parents: tuple[int, ...]
    submitted: float
    received: float
    #: What it has raised; there is nothing of the rest then.
    error: Failure | None = None
    host: str = ""
    process: int = 0
    begun: float = 0.0
    #: It had its arguments.
    ready: float = 0.0
    returned: float = 0.0
    #: It had put away what it has returned.
    put: float = 0.0
    #: Bytes of what it returned, pickled; nobody has looked.
    size: int | None = None
    #: Of workers; none if there are no groups.
    group: str = ""

    @property
    def times(self) -> tuple[float, float, float, float]:
        """It began, had its arguments, had its result, had put that away."""
        return self.begun, self.ready, self.returned, self.put
