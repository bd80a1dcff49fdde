"""Recursive Fibonacci by nested tasks of Dask: a task that waits frees its thread for others."""

from distributed import worker_client


def fibonacci(number: int) -> int:
    """Returns a Fibonacci number. Each call is a separate task, even with equal arguments."""
    if number < 2:
        return number
    with worker_client() as client:
        pair = [client.submit(fibonacci, number - less, pure=False) for less in (1, 2)]
        return sum(client.gather(pair))
