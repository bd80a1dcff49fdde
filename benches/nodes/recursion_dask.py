"""Recursive Fibonacci by nested tasks of Dask: a task that waits leaves its thread to others."""

from distributed import worker_client


def fibonacci(number: int) -> int:
    """Returns a Fibonacci number; each call is a task, none is taken for an equal one."""
    if number < 2:
        return number
    with worker_client() as client:
        pair = [client.submit(fibonacci, number - less, pure=False) for less in (1, 2)]
        return sum(client.gather(pair))
