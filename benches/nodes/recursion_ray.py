"""Recursive Fibonacci by nested tasks of Ray, which starts workers for those that wait."""

import ray


def fibonacci(number: int) -> int:
    """Returns a Fibonacci number. Each call is a task."""
    if number < 2:
        return number
    one, other = (_remote.remote(number - less) for less in (1, 2))
    return sum(ray.get([one, other]))


_remote = ray.remote(fibonacci)
