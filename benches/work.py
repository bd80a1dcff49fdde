"""The functions that every engine runs: importable by name, the same ones for all.

The module imports only what a bare interpreter has loaded, because the start-up rows import this module before their
clock starts.
"""

import os
from time import perf_counter


def noop(value: object) -> object:
    """Returns its argument. A task without work."""
    return value


def echo(array: object) -> object:
    """Returns the array it was given. The payload travels both ways."""
    return array


def first(array: list[float]) -> float:
    """Returns the first number of an array after two milliseconds of work. The payload travels one way."""
    spin(0.002)
    return float(array[0])


def step(value: int) -> int:
    """Adds one. A link of a chain; the last result proves the chain's length."""
    return value + 1


def total(*values: int) -> int:
    """Adds its arguments. The narrow end of a fan."""
    return sum(values)


def pid(_: object = None) -> int:
    """Returns the process id of the worker."""
    return os.getpid()


def spin(seconds: float) -> None:
    """Keeps a core busy for `seconds` of wall time."""
    end = perf_counter() + seconds
    while perf_counter() < end:
        pass


def turn(count: int) -> int:
    """Does a fixed amount of work: a loop of `count` turns, however often it is preempted."""
    # CPython has the numbers up to 256 ready: a turn with one of them would take half as long.
    for _ in range(1000, 1000 + count):
        pass
    return count


def hold(fifo: str) -> None:
    """Holds its worker, asleep, until another process opens the named pipe `fifo` for writing."""
    os.close(os.open(fifo, os.O_RDONLY))


def add(left: int, right: int) -> int:
    """Adds two numbers."""
    return left + right


def nothing() -> None:
    """Does nothing. The set-up of an empty context."""
