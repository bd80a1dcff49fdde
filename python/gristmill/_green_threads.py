"""Programs whose threads are greenlets: gevent or eventlet has replaced what ``_thread`` starts.

A native wait stops all greenlets of a thread. So the thread that calls callbacks is one of the system's there, with a
lock of the system's, and waits for futures let other greenlets run. ``wait_any``, the next result of a ``map``, and a
``submit`` that waits for room stop the other greenlets until they return.
"""

from __future__ import annotations

import _thread
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

#: The longest time between two looks of a wait, seconds.
_PAUSE_MAX = 5e-3
_BUILT_IN: type = type(len)


def are_used() -> bool:
    """Returns whether the threads that this program starts are greenlets."""
    return not isinstance(_thread.start_new_thread, _BUILT_IN)


def of_system() -> Any:
    """Returns a module ``_thread`` that no library has patched."""
    if not are_used():
        return _thread
    from importlib import util
    from importlib.machinery import BuiltinImporter

    spec = BuiltinImporter.find_spec("_thread")
    assert spec is not None, "_thread is built in"
    # A second module of this name has the interpreter's own functions.
    module = util.module_from_spec(spec)
    BuiltinImporter.exec_module(module)
    return module


class Thread:
    """A thread of the system, for a program whose ``threading.Thread`` is a greenlet."""

    def __init__(self, target: Callable[[], object]) -> None:
        self._target = target
        self._has_ended = False
        self._ident: int | None = None

    def start(self) -> None:
        """Starts the thread."""
        of_system().start_new_thread(self._run, ())

    def _run(self) -> None:
        self._ident = of_system().get_ident()
        try:
            self._target()
        finally:
            self._has_ended = True

    def is_current(self) -> bool:
        """Returns whether the caller runs in this thread."""
        ident: int = of_system().get_ident()
        return self._ident == ident

    def join(self) -> None:
        """Waits for the end of the thread, and lets other greenlets run."""
        wait_until(lambda: self._has_ended)


def wait_until(is_over: Callable[[], bool], timeout: float | None = None) -> bool:
    """Lets other greenlets run until ``is_over()``. Returns false if ``timeout`` seconds have passed before."""
    end = None if timeout is None else time.monotonic() + timeout
    pause = 0.0
    while not is_over():
        if end is not None:
            left = end - time.monotonic()
            if left <= 0:
                return False
            pause = min(pause, left)
        time.sleep(pause)  # that of the library
        pause = min(2 * pause or 5e-5, _PAUSE_MAX)
    return True


def release_in_waits(future: Any) -> None:
    """Makes ``result`` and ``exception`` of a type of futures let other greenlets run while they wait."""
    for name in ("result", "exception"):
        wait = getattr(future, name)
        if getattr(wait, "lets_greenlets_run", False):
            return
        setattr(future, name, _releasing(wait))


def _releasing(wait: Callable[..., Any]) -> Callable[..., Any]:
    def released(self: Any, timeout: float | None = None) -> Any:
        return wait(self) if wait_until(self.done, timeout) else wait(self, 0)

    released.__name__, released.__doc__ = wait.__name__, wait.__doc__
    released.lets_greenlets_run = True  # type: ignore[attr-defined]
    return released
