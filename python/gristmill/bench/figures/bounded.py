"""What is measured in the program itself ends: a run has a process and a time of its own, a figure's case has not."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from time import monotonic

import gristmill
from gristmill.bench.errors import BenchError

#: After the first time it is interrupted again and again: something may have caught that. Cleaning up takes less.
_AGAIN_S = 30.0


@contextmanager
def ended_within(seconds: float) -> Iterator[None]:
    """Interrupts what takes longer, by an alarm of the system, with a ``BenchError``.

    Only the main thread can be interrupted so: elsewhere there is no bound.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def interrupt(_signal: int, _frame: object) -> None:
        raise BenchError(f"it did not end within {seconds:g} s")

    begun = monotonic()
    handler = signal.signal(signal.SIGALRM, interrupt)
    left, interval = signal.setitimer(signal.ITIMER_REAL, seconds, _AGAIN_S)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, handler)
        if left:
            # An alarm that somebody else has set goes on.
            signal.setitimer(signal.ITIMER_REAL, max(0.001, left - (monotonic() - begun)), interval)


@contextmanager
def left_at_once(executor: gristmill.Executor) -> Iterator[None]:
    """Ends what an executor runs when the block fails: whoever leaves it waits for its calls, and one may hang."""
    try:
        yield
    except BaseException as error:
        executor._expire(f"what it was for has failed: {error}")
        raise
