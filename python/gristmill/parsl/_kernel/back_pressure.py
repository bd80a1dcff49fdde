"""Back pressure on a program that submits faster than its tasks finish: ``Config.task_limit``.

Only threads of the program itself wait: its main thread, and the thread that made the kernel. A thread never waits
while it runs a task, the body of a join app, or a callback, because outstanding tasks may become final only after that,
and the wait could never end. For the same reason, tasks that the kernel submits on behalf of a call, such as staging,
do not wait.
"""

from __future__ import annotations

import itertools
import logging
import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING

from gristmill._resources import memory_size
from gristmill.parsl._kernel.calls import is_in_step

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

_log = logging.getLogger("parsl.gristmill.kernel")

#: Bytes of an outstanding task with its futures, without its arguments, which are the program's own objects.
_TASK_SIZE = 2500
#: Maximum delay of an interrupt that arrives just before a wait, seconds: an interrupt does not wake a lock's waiter.
_OVERSLEEP = 1.0


class BackPressure:
    """The limit on outstanding tasks.

    :param limit: tasks that may be outstanding before the program waits; if not given, as many as fit into a quarter of
        memory.
    :param count: returns how many tasks are not final.
    :param lock: guards that number.
    """

    def __init__(self, limit: int | None, count: Callable[[], int], lock: threading.RLock) -> None:
        self._limit = max(memory_size() // 4 // _TASK_SIZE, 1) if limit is None else limit
        #: Numbers the waits that the program has not asked for.
        self._unasked_waits = itertools.count() if limit is None else None
        self._count = count
        self._lock = lock
        #: One locked lock for each waiting thread, which is blocked in a second ``acquire`` of it.
        self._waiting: list[threading.Lock] = []
        self._is_closed = False
        self._mine = threading.local()
        self._programs = {threading.current_thread(), threading.main_thread()}

    def wait_for_room(self) -> None:
        """Waits while too many tasks are outstanding, if this thread may wait safely. An interrupt ends the wait."""
        if self._has_room() or not self._may_wait():
            return
        if self._unasked_waits is not None and not next(self._unasked_waits):
            _log.warning(
                "the program waits: %s tasks are outstanding, as many as fit into a quarter of memory at %s bytes "
                "each. Config(task_limit=...) sets another limit",
                self._limit,
                _TASK_SIZE,
            )
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
        return self._is_closed or self._count() < self._limit

    def _may_wait(self) -> bool:
        is_inside = getattr(self._mine, "is_inside", False)
        is_program = threading.current_thread() in self._programs
        return is_program and not is_in_step() and not is_inside

    @contextmanager
    def inside_a_call(self) -> Iterator[None]:
        """Keeps this thread from waiting within the body of the ``with`` statement."""
        outer = getattr(self._mine, "is_inside", False)
        self._mine.is_inside = True
        try:
            yield
        finally:
            self._mine.is_inside = outer

    def made_room(self) -> None:
        """Wakes all waiting threads after a task became final. The caller holds the lock."""
        while self._waiting:
            self._waiting.pop().release()

    def close(self) -> None:
        """Ends all waits, now and later: the kernel has ended."""
        with self._lock:
            self._is_closed = True
            self.made_room()
