"""The timings of a task, as ``Future.timings`` returns them."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Timings:
    """The times at which a task passed each stage, and the state of its worker.

    All times are nanoseconds after the submission. A stage that the task has not passed, and each stage in a build
    without timings, is ``None``. With retries the times are those of the last attempt.
    """

    #: The submission: always 0.
    submitted: int | None = None
    #: The client wrote the task into a worker's ring.
    written: int | None = None
    #: The worker took the task from its ring.
    claimed: int | None = None
    #: The worker began to decode the arguments and to run the function.
    started: int | None = None
    #: The function returned and the result was encoded.
    ended: int | None = None
    #: The worker published the answer.
    published: int | None = None
    #: The client read the answer.
    drained: int | None = None
    #: The state of the worker before it ran the task: ``"hot"`` (polled, or ran a task), ``"warm"`` (slept) or
    #: ``"cold"`` (had not started).
    worker_state: str | None = None
