"""Recursive Fibonacci by nested tasks of ours: a worker that waits runs other tasks meanwhile."""

from gristmill import current_executor


def fibonacci(number: int) -> int:
    """Returns a Fibonacci number. Each call is a task."""
    if number < 2:
        return number
    submit = current_executor().submit
    one, other = submit(fibonacci, number - 1), submit(fibonacci, number - 2)
    return one.result() + other.result()
