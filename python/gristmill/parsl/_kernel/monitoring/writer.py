"""The thread that writes events once a second. All other threads only put them on a queue."""

from __future__ import annotations

import itertools
import logging
import sqlite3
import threading
import time
import warnings
from collections import deque
from typing import TYPE_CHECKING, Any

from gristmill import _resources

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from gristmill.parsl._kernel.monitoring.database import Database, Rows

_log = logging.getLogger("parsl.gristmill.monitoring")

#: Seconds between two batches. A killed program loses at most the events of this time.
_PERIOD_S = 1.0
#: Bytes that the events of a queue may hold, where memory is not short; as many may be on their way to the database. A
#: thread with one more event waits until the writer has taken the queue. While the database cannot be written, the
#: event is dropped and counted instead.
_HELD_SIZE_MAX = 32 << 20
#: Bytes of an event that holds nothing of the program's.
EVENT_SIZE = 300
#: Seconds for which a failing batch is retried, before it is dropped and counted. While another program locks the
#: database, they begin with the end of the run.
_RETRY_S = 30.0
_LOCKED = (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED)
#: Seconds between two tries, unless something asks for one sooner.
_PAUSE_S = 0.5


class EventQueue:
    """Events that wait for the writer, and an estimate of the bytes that they hold."""

    def __init__(self) -> None:
        self.items: deque[Any] = deque()
        #: Items that the writer's thread has taken from the queue and that count as waiting.
        self.held_count = 0
        #: Bytes since the queue was last taken. Threads that change it at the same time may lose one of the changes,
        #: until nothing waits.
        self.size = 0
        self.size_max = min(_HELD_SIZE_MAX, _resources.memory_size() // 64)

    @property
    def is_full(self) -> bool:
        """True if one more event has to wait. A queue in which nothing waits is never full."""
        return self.size > self.size_max and self._has_waiting

    def take(self) -> list[Any]:
        """Returns all items, in order, and keeps none."""
        self.size = 0
        return [self.items.popleft() for _ in range(len(self.items))]

    def note_taken(self, size: int) -> None:
        """Counts items that were taken one by one, with so many bytes together."""
        self.size = max(self.size - size, 0) if self._has_waiting else 0

    @property
    def _has_waiting(self) -> bool:
        return bool(self.items) or self.held_count > 0


class Writer:
    """A writer of events to a database.

    :param database: closed with the writer.
    :param render: turns events into batches of rows, in the order in which they were put.
    :param release: called in the writer's thread after each failed try to write a batch. It releases memory that
        ``render`` would release later.
    :param period: seconds between two batches.
    """

    def __init__(
        self,
        database: Database,
        render: Callable[[Sequence[Any]], Iterable[Sequence[Rows]]],
        release: Callable[[], None],
        period: float = _PERIOD_S,
    ) -> None:
        self._database = database
        self._render = render
        self._release = release
        self._period = period
        self._queue = EventQueue()
        self._room = threading.Condition()
        self._is_due = threading.Event()
        self._closed_at: float | None = None
        self._is_failing = False
        #: True while a batch is tried again.
        self._is_stuck = False
        #: Rows that were dropped.
        self._lost = 0
        #: Counts the events that were dropped before they were rows. Unlike an addition, ``next`` is atomic.
        self._drops = itertools.count()
        self._thread = threading.Thread(target=self._run, name="gristmill-monitoring", daemon=True)
        self._thread.start()

    def put(self, event: Any, size: int = EVENT_SIZE) -> None:
        """Queues an event that holds so many bytes. While the queue is full, waits or drops the event."""
        queue = self._queue
        if queue.is_full and not self.make_room(queue):
            return
        queue.items.append(event)
        queue.size += size

    def close(self, events: Iterable[Any] = ()) -> None:
        """Writes the queued events, then these, and closes the database. Warns if rows were lost."""
        self._queue.items.extend(events)
        self._closed_at = time.monotonic()
        self._is_due.set()
        self._thread.join()
        dropped = next(self._drops)
        if self._lost or dropped:
            # An event has one row or more.
            count = f"at least {self._lost + dropped}" if dropped else f"{self._lost}"
            warnings.warn(
                f"{count} rows of monitoring are not in the database, which could not be written: see parsl.log",
                RuntimeWarning,
                stacklevel=2,
            )

    def hurry(self) -> None:
        """Begins the next batch now."""
        self._is_due.set()

    def make_room(self, queue: EventQueue) -> bool:
        """Waits while a queue is full, and returns ``True``.

        While the database cannot be written, returns ``False`` at once, and counts one event that the caller drops. If
        the writer's thread no longer runs, the queue is dropped: after the end, or in a fork of the program.
        """
        if not self._is_stuck:  # a write that is tried again keeps its pauses
            self._is_due.set()
        with self._room:
            while queue.is_full:
                if not self._thread.is_alive():
                    queue.take()
                elif self._is_stuck:
                    next(self._drops)
                    return False
                else:
                    self._room.wait(self._period)
        return True

    def made_room(self) -> None:
        """Wakes the threads that wait because a queue is full."""
        with self._room:
            self._room.notify_all()

    def _run(self) -> None:
        while self._closed_at is None:
            self._is_due.wait(self._period)
            self._is_due.clear()
            self._write_all()
        self._write_all()
        self._database.close()

    def _write_all(self) -> None:
        events = self._queue.take()
        try:
            for batch in self._render(events):
                self.made_room()
                if batch:
                    self._write_or_count(batch)
        except Exception:
            _log.exception("%s events could not be recorded", len(events))
        self.made_room()

    def _write_or_count(self, batch: Sequence[Rows]) -> None:
        try:
            self._write(batch)
        except sqlite3.Error:
            count = sum(len(rows) for _, rows in batch)
            self._lost += count
            _log.exception("%s rows could not be recorded", count)

    def _write(self, batch: Sequence[Rows]) -> None:
        """Writes a batch, and tries again while the database is locked or the disk full.

        Raises ``sqlite3.OperationalError`` after ``_RETRY_S`` seconds of a full disk, or at once if the previous batch
        failed too. A locked database is tried again until the run has been over for so long.
        """
        begun = time.monotonic()
        was_due = False
        try:
            while not self._is_written(batch, begun):
                self._release()
                if self._is_due.wait(_PAUSE_S):
                    self._is_due.clear()
                    was_due = True
        finally:
            self._is_stuck = False
            if was_due:
                self._is_due.set()

    def _is_written(self, batch: Sequence[Rows], begun: float) -> bool:
        """Tries to write a batch, whose first try was at ``begun``. Returns whether it needs no other try."""
        try:
            self._database.write(batch)
        except sqlite3.OperationalError as error:
            since = self._closed_at if _is_locked(error) else begun
            patience = 0 if self._is_failing else _RETRY_S
            if since is not None and time.monotonic() >= since + patience:
                self._is_failing = True
                raise
            self._stick(error)
            return False
        self._is_failing = False
        return True

    def _stick(self, error: sqlite3.OperationalError) -> None:
        """Makes threads that find a queue full drop their events, until the batch has been written."""
        if not self._is_stuck:
            _log.warning("the monitoring database cannot be written and is tried again: %s", error)
            self._is_stuck = True
            self.made_room()


def _is_locked(error: sqlite3.OperationalError) -> bool:
    # The low byte is the kind of the error.
    return getattr(error, "sqlite_errorcode", 0) & 0xFF in _LOCKED
