"""The time limit of a Python app on executors without one: an exception raised in the thread that runs the app.

It cannot end code that does not return to the interpreter. Gristmill's own workers can: see ``GristmillExecutor``.
"""

from __future__ import annotations

import ctypes
import functools
import math
import threading
from typing import TYPE_CHECKING, Any

from gristmill import _forked, _options

if TYPE_CHECKING:
    from collections.abc import Callable


def seconds_of(walltime: Any) -> float | None:
    """Returns the limit of a call's ``walltime`` in seconds, or ``None`` if there is none.

    Raises ``TypeError`` and ``ValueError`` for a value that is no time.
    """
    if walltime is None or (isinstance(walltime, float) and walltime == math.inf):
        return None
    return _options.seconds("walltime", walltime)


def limited(function: Callable[..., Any], seconds: float) -> Callable[..., Any]:
    """Returns the function with a time limit: after ``seconds``, ``AppTimeout`` is raised inside it."""
    return functools.update_wrapper(functools.partial(_run_limited, function, seconds), function)


def unlimited(function: Callable[..., Any]) -> tuple[Callable[..., Any], float] | None:
    """Returns the function that ``limited`` wrapped, and its limit in seconds. ``None`` for any other function."""
    if isinstance(function, functools.partial) and function.func is _run_limited:
        inner, seconds = function.args
        return inner, seconds
    return None


def _run_limited(
    function: Callable[..., Any], seconds: float, /, *arguments: Any, **named: Any
) -> Any:
    from gristmill.parsl._kernel.errors import AppTimeout

    is_over = threading.Event()
    lock = threading.Lock()
    thread = threading.get_ident()

    def raise_in_thread() -> None:
        # Under the lock, so that the exception never hits code that the thread runs after the function.
        with lock:
            if not is_over.is_set():
                exception = ctypes.py_object(AppTimeout)
                ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(thread), exception)

    timer = threading.Timer(min(seconds, threading.TIMEOUT_MAX), raise_in_thread)
    timer.daemon = True
    timer.start()
    try:
        return _forked.guarded_with(function, arguments, named)
    except AppTimeout as error:
        if not error.args:
            name = getattr(function, "__name__", repr(function))
            error.args = (f"App {name} exceeded walltime: {seconds} seconds",)
        raise
    finally:
        with lock:
            is_over.set()
        timer.cancel()
