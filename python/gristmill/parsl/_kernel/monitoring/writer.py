"""The thread that writes events once a second. All other threads only put them on a queue."""

from __future__ import annotations

import logging
import sqlite3
import threading
import time
from collections import deque
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from gristmill.parsl._kernel.monitoring.database import Database, Rows

_log = logging.getLogger("parsl.gristmill.monitoring")

#: Seconds between two batches. A killed program loses at most the events of this time.
_PERIOD_S = 1.0
#: Maximum number of queued events, about 100 bytes each. A thread with one more event waits until the writer has taken
#: the queue.
EVENTS_MAX = 2**18
#: Seconds for which a failing batch is retried, before it is dropped and logged.
_RETRY_S = 30.0
#: Seconds between two tries.
_PAUSE_S = 0.5


class Writer:
    """A writer of events to a database.

    :param database: closed with the writer.
    :param render: turns events into rows, in the order in which they were put.
    :param period: seconds between two batches.
    """

    def __init__(
        self,
        database: Database,
        render: Callable[[Sequence[Any]], Sequence[Rows]],
        period: float = _PERIOD_S,
    ) -> None:
        self._database = database
        self._render = render
        self._period = period
        self._events: deque[Any] = deque()
        self._room = threading.Condition()
        self._is_due = threading.Event()
        self._is_closed = False
        self._is_failing = False
        self._thread = threading.Thread(target=self._run, name="gristmill-monitoring", daemon=True)
        self._thread.start()

    def put(self, event: Any) -> None:
        """Queues an event. Waits only while ``EVENTS_MAX`` events are queued."""
        self._events.append(event)
        if len(self._events) > EVENTS_MAX:
            self.make_room(self._events, EVENTS_MAX)

    def close(self) -> None:
        """Writes the queued events and closes the database."""
        self._is_closed = True
        self._is_due.set()
        self._thread.join()

    def make_room(self, waiting: deque[Any], size_max: int) -> None:
        """Waits until the queue is at most ``size_max`` long.

        If the writer's thread no longer runs, the queue is dropped: after the end, or in a fork of the program.
        """
        self._is_due.set()
        with self._room:
            while len(waiting) > size_max:
                if not self._thread.is_alive():
                    waiting.clear()
                self._room.wait(self._period)

    def _run(self) -> None:
        while not self._is_closed:
            self._is_due.wait(self._period)
            self._is_due.clear()
            self._write_all()
        self._write_all()
        self._database.close()

    def _write_all(self) -> None:
        events = [self._events.popleft() for _ in range(len(self._events))]
        try:
            batch = self._render(events)
            with self._room:
                self._room.notify_all()
            if batch:
                self._write(batch)
        except Exception:
            _log.exception("%s events could not be recorded", len(events))

    def _write(self, batch: Sequence[Rows]) -> None:
        """Writes a batch, and retries while the database is busy or full.

        Raises ``sqlite3.OperationalError`` after ``_RETRY_S`` seconds, or at once if the previous batch failed too.
        """
        deadline = time.monotonic() + (0 if self._is_failing else _RETRY_S)
        while True:
            try:
                self._database.write(batch)
            except sqlite3.OperationalError as error:
                self._is_failing = time.monotonic() >= deadline
                if self._is_failing:
                    raise
                _log.warning(
                    "the monitoring database cannot be written and is tried again: %s", error
                )
                time.sleep(_PAUSE_S)
            else:
                self._is_failing = False
                return
