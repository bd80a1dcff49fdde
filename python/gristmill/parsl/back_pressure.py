"""Holds a program back that submits faster than its tasks are done: ``Config.task_limit``.

Only the program itself ever waits: its main thread, and the thread that made the kernel. Threads that run tasks, bodies
of join apps or callbacks go on, because outstanding tasks may need them to become final: there, a wait for room could
be a wait for itself. For the same reason what a call of an app submits on its behalf, such as staging, does not wait.
"""

from __future__ import annotations

import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING

from gristmill.parsl.calls import is_in_step

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


#: How long a wait may oversleep an interrupt that came just before it, seconds: nothing wakes a lock's waiter for it.
_OVERSLEEP = 1.0


class BackPressure:
    """Room for so many tasks.

    :param limit: tasks that may be outstanding before the program waits; no limit if ``None``.
    :param count: how many tasks are not final.
    :param lock: guards that number.
    """

    def __init__(self, limit: int | None, count: Callable[[], int], lock: threading.Lock) -> None:
        self._limit = limit
        self._count = count
        self._lock = lock
        #: Each is locked, and whoever waits is in the middle of locking it again.
        self._waiting: list[threading.Lock] = []
        self._is_closed = False
        self._mine = threading.local()
        self._programs = {threading.current_thread(), threading.main_thread()}

    def wait_for_room(self) -> None:
        """Waits while too many tasks are outstanding, where waiting is safe. An interrupt ends it."""
        if self._has_room() or not self._may_wait():
            return
        door = threading.Lock()
        door.acquire()
        while True:
            with self._lock:
                if self._has_room():
                    return
                if door not in self._waiting:
                    self._waiting.append(door)
            door.acquire(timeout=_OVERSLEEP)

    def _has_room(self) -> bool:
        return self._limit is None or self._is_closed or self._count() < self._limit

    def _may_wait(self) -> bool:
        is_inside = getattr(self._mine, "is_inside", False)
        is_program = threading.current_thread() in self._programs
        return is_program and not is_in_step() and not is_inside

    @contextmanager
    def inside_a_call(self) -> Iterator[None]:
        """In its body this thread does not wait."""
        outer = getattr(self._mine, "is_inside", False)
        self._mine.is_inside = True
        try:
            yield
        finally:
            self._mine.is_inside = outer

    def made_room(self) -> None:
        """A task became final; called under the lock."""
        while self._waiting:
            self._waiting.pop().release()

    def close(self) -> None:
        """Nobody waits any more: the kernel has ended."""
        with self._lock:
            self._is_closed = True
            self.made_room()
