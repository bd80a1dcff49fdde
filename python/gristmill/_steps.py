"""Limits for the steps of a process's start that run user code: a step that exceeds its time says where it was.

The steps are the imports of ``preload``, the setup of a context with the part behind its ``yield``, and the
initializer.
"""

from __future__ import annotations

import sys

from gristmill import _native

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import TracebackType
    from typing import IO, Any


class Step:
    """Block that ends this process when it exceeds its time. The process reports where it is then, or when it crashes.

    :param seconds: the time limit; ``None`` for no limit.
    :param last_words: the file of the report; by default standard error.
    """

    def __init__(self, seconds: float | None, last_words: IO[Any] | None = None) -> None:
        self._seconds = seconds
        self._last_words = last_words
        self._timer: _native.SetupTimer | None = None
        self._speaks_already = False

    def __enter__(self) -> None:
        import faulthandler

        # Without Python's help, because code that hangs may hold the interpreter.
        file = self._last_words or sys.stderr
        self._speaks_already = faulthandler.is_enabled()
        faulthandler.enable(file)
        if self._seconds is not None:
            faulthandler.register(_native.SETUP_ALARM, file, chain=True)
            self._timer = _native.SetupTimer(self._seconds)

    def __exit__(
        self, _: type[BaseException] | None, __: BaseException | None, ___: TracebackType | None
    ) -> None:
        import faulthandler

        if self._timer is not None:
            self._timer.stop()
            faulthandler.unregister(_native.SETUP_ALARM)
        if self._speaks_already:
            faulthandler.enable(2)  # as the interpreter or the program's settings enabled it
        else:
            faulthandler.disable()
