"""Interrupts of a task that come at a bad moment."""

from __future__ import annotations

import signal
import threading
from types import FrameType

from gristmill._native import INTERRUPT_SIGNAL


class HeldInterrupts:
    """Interrupts of the running task, held up until ``release``.

    One that was raised amid the start of a process would leave that running, with nobody who knows its number. Only
    the main thread is ever interrupted. The signal is not blocked instead, as the process would inherit that.
    """

    def __init__(self) -> None:
        self._has_come = False
        self._handler = None
        if threading.current_thread() is threading.main_thread():
            handler = signal.getsignal(INTERRUPT_SIGNAL)
            if callable(handler):
                self._handler = handler
                signal.signal(INTERRUPT_SIGNAL, self._note)

    def _note(self, _signal: int, _frame: FrameType | None) -> None:
        self._has_come = True

    def release(self) -> None:
        """Lets interrupts come again; raises what one that was held up raises."""
        handler, self._handler = self._handler, None
        if handler is not None:
            signal.signal(INTERRUPT_SIGNAL, handler)
            if self._has_come:
                handler(INTERRUPT_SIGNAL, None)
