"""What monitored apps do. Not in a test's module: workers import what they call, and pytest with it."""

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
    """Lasts until there are so many readings of it; gives the worker's number of threads that read."""
    from gristmill.parsl.monitoring import sampling

    (watch,) = sampling._running.values()
    while len(watch.readings) < count:
        pass
    return sum(thread.name == "gristmill-monitoring" for thread in threading.enumerate())


def double(number: int) -> int:
    return 2 * number


def fail(text: str) -> None:
    raise ValueError(text)


class Value:
    """Something of which one can tell that it is gone."""


def make() -> Value:
    return Value()
