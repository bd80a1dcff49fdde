"""The condition of futures that have no lock of their own.

The standard library's ``wait`` and ``as_completed`` hold the conditions of all their futures at once and read each
future's state several times meanwhile. They acquire in the order of the futures' addresses, which prevents deadlocks
only if each future has a lock of its own. The engine's futures share one condition, so it must not exclude any thread.
Otherwise two threads that wait for futures of this and of another library would block each other for ever. The
condition only keeps, for the thread that holds it, each state that the thread has read, until the thread releases it.
"""

from __future__ import annotations

import threading
from concurrent.futures import _base
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from gristmill import _native
    from gristmill._nested import NestedFuture

FINAL = (_base.CANCELLED_AND_NOTIFIED, _base.FINISHED)


class _Hold:
    """State of the condition in one thread."""

    __slots__ = ("depth", "seen")

    def __init__(self) -> None:
        #: Number of times that the thread has acquired it.
        self.depth = 0
        #: The states that the thread has read meanwhile and that are not final, by the future's ``id``. Final states do
        #: not change.
        self.seen: dict[int, str] = {}


class _Holds(threading.local):
    def __init__(self) -> None:
        self.own = _Hold()


class Condition:
    """The condition of all futures of all executors. While a thread holds it, no state changes for that thread."""

    def __init__(self) -> None:
        self._holds = _Holds()

    def acquire(self, blocking: bool = True, timeout: float = -1) -> bool:
        """Keeps states from changing for this thread. Never waits for another thread."""
        self._holds.own.depth += 1
        return True

    def release(self) -> None:
        """Undoes one ``acquire``. The last ``release`` lets states change again."""
        hold = self._holds.own
        hold.depth -= 1
        if not hold.depth and hold.seen:
            hold.seen.clear()

    def __enter__(self) -> bool:
        self._holds.own.depth += 1
        return True

    def __exit__(self, *_: object) -> None:
        self.release()

    def state(self, future: _native.Future[Any] | NestedFuture[Any]) -> str:
        """Returns the future's state; while this thread holds the condition, the state that the thread read first."""
        hold = self._holds.own
        if not hold.depth:
            return future._current_state()
        seen = hold.seen.get(id(future))
        if seen is None:
            seen = future._current_state()
            if seen not in FINAL:
                hold.seen[id(future)] = seen
        return seen


#: The one condition that all futures here share.
CONDITION = Condition()
