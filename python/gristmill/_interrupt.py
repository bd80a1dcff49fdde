"""The exception that interrupts a task.

It has its own module so that a worker need not load the other errors.
"""

from __future__ import annotations


class TaskInterrupted(BaseException):
    """Interrupt inside a running task that is cancelled or has run out of time.

    It is no ``Exception``, so ``except Exception`` does not swallow it. A task that catches it is killed after the
    grace time.
    """

    code: str = "task_interrupted"
