"""Callbacks of futures. An exception in one callback does not keep the others from being called."""

from __future__ import annotations

import logging
import threading
from functools import partial
from typing import TYPE_CHECKING, Any

from gristmill import _forked

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from concurrent.futures import Future

#: The logger that the standard library uses for exceptions in callbacks.
_log = logging.getLogger("concurrent.futures")


def is_interrupt(error: BaseException) -> bool:
    """Returns whether an exception is Ctrl-C, which the program has to see: Python raises it in the main thread."""
    is_main = threading.current_thread() is threading.main_thread()
    return issubclass(type(error), KeyboardInterrupt) and is_main


class Once:
    """A callback that calls a function once, with its arguments and then the future, and then releases the arguments.

    Futures keep their callbacks. Without the release the arguments would live as long as the future, and would form a
    cycle if they refer to it.
    """

    __slots__ = ("_call",)

    def __init__(self, function: Callable[..., object], *arguments: object) -> None:
        self._call: Callable[[Future[Any]], object] | None = partial(function, *arguments)

    def __call__(self, future: Future[Any]) -> None:
        """Calls the function at the first call, and does nothing later."""
        call, self._call = self._call, None
        if call is not None:
            call(future)


def call_all(future: Future[Any], callbacks: Iterable[Callable[[Future[Any]], object]]) -> None:
    """Calls every callback with the future, and logs what a callback raises, ``SystemExit`` included.

    The standard library lets ``SystemExit`` propagate. It would end the thread that completes futures, and the
    callbacks of all other futures would never run. Ctrl-C in the main thread is raised again after all callbacks were
    called.
    """
    interrupt: BaseException | None = None
    for callback in callbacks:
        try:
            _forked.guarded(callback, future)
        except BaseException as error:
            _log.exception("exception calling callback for %r", future)
            if is_interrupt(error):
                interrupt = error
    if interrupt is not None:
        raise interrupt
