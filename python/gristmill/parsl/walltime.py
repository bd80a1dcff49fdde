"""The time limit of a Python app on executors that have none: an exception raised in the thread that runs it.

It cannot end code that does not return to the interpreter. Gristmill's own workers can: see ``GristmillExecutor``.
"""

from __future__ import annotations

import ctypes
import functools
import threading
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable


def limited(function: Callable[..., Any], seconds: float) -> Callable[..., Any]:
    """The function with a time limit; raises ``AppTimeout`` in it after so many seconds."""
    return functools.update_wrapper(functools.partial(_run_limited, function, seconds), function)


def unlimited(function: Callable[..., Any]) -> tuple[Callable[..., Any], float] | None:
    """The function that ``limited`` was given, and its limit in seconds; ``None`` for any other function."""
    if isinstance(function, functools.partial) and function.func is _run_limited:
        inner, seconds = function.args
        return inner, seconds
    return None


def _run_limited(
    function: Callable[..., Any], seconds: float, /, *arguments: Any, **named: Any
) -> Any:
    from gristmill.parsl.errors import AppTimeout

    is_over = threading.Event()
    lock = threading.Lock()
    thread = threading.get_ident()

    def raise_in_thread() -> None:
        # Under the lock, so that it never hits what the thread does afterwards.
        with lock:
            if not is_over.is_set():
                exception = ctypes.py_object(AppTimeout)
                ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(thread), exception)

    timer = threading.Timer(seconds, raise_in_thread)
    timer.daemon = True
    timer.start()
    try:
        return function(*arguments, **named)
    except AppTimeout as error:
        if not error.args:
            name = getattr(function, "__name__", repr(function))
            error.args = (f"App {name} exceeded walltime: {seconds} seconds",)
        raise
    finally:
        with lock:
            is_over.set()
        timer.cancel()
