"""What is known of a task that has ended."""

from __future__ import annotations

import msgspec


class Ended(msgspec.Struct):
    """A task that has ended. Times are seconds since the epoch, by the clock of where they were taken."""

    name: str
    #: Counts the tasks of an engine, from 0.
    number: int
    #: The numbers of the tasks whose futures it was given.
    parents: tuple[int, ...]
    submitted: float
    received: float
    #: What it has raised; there is nothing of the rest then.
    error: BaseException | None = None
    host: str = ""
    process: int = 0
    #: It began, had its arguments, had its result, had put that away.
    times: tuple[float, float, float, float] = (0.0, 0.0, 0.0, 0.0)
