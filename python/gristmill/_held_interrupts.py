"""Deferral of a task's interrupts that come at a bad moment."""

from __future__ import annotations

import signal
import sys
import threading
from types import FrameType

from gristmill._native import INTERRUPT_SIGNAL


class HeldInterrupts:
    """Interrupts of the running task, deferred until ``release``.

    An interrupt during the start of a process would leave the process running, and no code would know its process id.
    Only the main thread is ever interrupted. The signal is not blocked instead, because the new process would inherit
    the block.
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
        """Allows interrupts again. Raises the exception of an interrupt that was deferred."""
        handler, self._handler = self._handler, None
        if handler is not None:
            signal.signal(INTERRUPT_SIGNAL, handler)
            if self._has_come:
                handler(INTERRUPT_SIGNAL, sys._getframe())
