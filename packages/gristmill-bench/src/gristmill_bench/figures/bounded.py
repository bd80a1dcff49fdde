"""Time limits for measurements in the program itself: unlike a run, a figure's case has no process and no timeout."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from time import monotonic

import gristmill
from gristmill_bench.errors import BenchError

#: Seconds between repeated interrupts after the first: the block may have caught the first one. Cleaning up takes less.
_AGAIN_S = 30.0


@contextmanager
def ended_within(seconds: float) -> Iterator[None]:
    """Interrupts the block with a ``BenchError`` by a system alarm if it takes longer.

    Only the main thread can be interrupted this way: in other threads there is no limit.
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
            # The earlier alarm of other code continues.
            signal.setitimer(signal.ITIMER_REAL, max(0.001, left - (monotonic() - begun)), interval)


@contextmanager
def left_at_once(executor: gristmill.Executor) -> Iterator[None]:
    """Ends all calls of an executor if the block fails: closing the executor waits for them, and one may hang."""
    try:
        yield
    except BaseException as error:
        executor._expire(f"what it was for has failed: {error}")
        raise
