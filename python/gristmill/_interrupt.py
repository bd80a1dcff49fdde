"""What interrupts a task: in a module of its own, because every worker needs it and none of the other errors."""

from __future__ import annotations


class TaskInterrupted(BaseException):
    """Raised inside a running task that is cancelled or has run out of time.

    Not an ``Exception``, so that ``except Exception`` does not swallow it. A task that catches it is killed after the
    grace time.
    """
