"""Tasks of monitored apps. They are not in a test's module, because a worker imports the module of what it calls, and a
test's module imports pytest.
"""

from __future__ import annotations

import sys
import threading
import time

MEMORY_SIZE = 64 * 2**20


CPU_S = 0.05


def use_much() -> None:
    """Computes, and keeps its memory for as long as its worker lives."""
    sys.modules["__main__"].kept = bytearray(b"x" * MEMORY_SIZE)  # type: ignore[attr-defined]
    start = time.process_time()
    while time.process_time() - start < CPU_S:
        pass


def be_sampled(count: int) -> int:
    """Runs until it has been sampled ``count`` times; returns the number of sampling threads in the worker."""
    from gristmill.parsl._kernel.monitoring import sampling

    (watch,) = sampling._running.values()
    while len(watch.readings) < count:
        pass
    return sum(thread.name == "gristmill-monitoring" for thread in threading.enumerate())


def double(number: int) -> int:
    return 2 * number


def fail(text: str) -> None:
    raise ValueError(text)


class Value:
    """An object whose end can be observed."""


def make() -> Value:
    return Value()


def ignore(value: object, inputs: object = ()) -> None:
    """Does nothing with its arguments."""
