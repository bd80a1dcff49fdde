"""Monitoring of calls that the engine runs alone, without observing their steps, from their timings afterwards."""

from __future__ import annotations

import platform
import time
from collections import deque
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple

from gristmill._remote import middle_cut
from gristmill.parsl._kernel.dependencies import DEEP_DEPENDENCY_RESOLVER, FUTURELESS_TYPES
from gristmill.parsl._kernel.endings import repr_of
from gristmill.parsl._kernel.monitoring.facts import OWN_BLOCK, numbers_of
from gristmill.parsl._kernel.monitoring.measure import Measured
from gristmill.parsl._kernel.monitoring.rows import Attempt
from gristmill.parsl._kernel.monitoring.writer import EVENT_SIZE, EventQueue
from gristmill.parsl._kernel.states import States

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from gristmill._timings import Timings
    from gristmill.parsl._kernel.monitoring.rows import Batch

#: Calls that are checked for their end once a second, or twice the new ones. With millions outstanding, it takes a few
#: seconds to check all.
_LOOKS_MIN = 50_000
#: Number of items that are queued for one call until it is rendered.
_PARTS = 3


_NO_FAILURES: list[str] = []
_NOTHING: Mapping[str, Any] = MappingProxyType({})


@dataclass(slots=True)
class CallRecord:
    """The data of a call for the tables, by the names of a ``Task``. There may be millions of records.

    It holds no arguments: the task owns these, and the record lives longer.
    """

    id: int
    executor: str
    func_name: str
    #: The numbers of the tasks that it waits for: their futures would keep their results in memory.
    depends: str
    time_invoked: float
    status: States = States.pending
    time_returned: float | None = None
    try_time_launched: float | None = None
    fail_count: int = 0
    fail_cost: float = 0
    fail_history: list[str] = field(default_factory=lambda: _NO_FAILURES)
    memoize: bool = False
    hashsum: str | None = None
    joins: None = None
    kwargs: Mapping[str, Any] = field(default_factory=lambda: _NOTHING)


class Ended(NamedTuple):
    """The end of a call, for the tables. It holds neither the result nor the exception."""

    timings: Timings
    status: States
    #: The exception of a call that has failed.
    history: str
    #: Seconds since the epoch at which the end was noticed: the end, if the engine has no time of it.
    found_at: float

    @classmethod
    def of(cls, future: Any) -> Ended | None:
        """Returns the end of a call, or ``None`` if it goes on."""
        if future._look() not in ("succeeded", "failed", "cancelled"):
            return None
        status = future._status()
        history = ""
        if status in (States.failed, States.dep_fail):
            history = repr_of(future.exception())
        elif status is States.cancelled:
            history = "CancelledError()"
        return cls(future.timings(), status, history, time.time())


class EngineCalls:
    """The calls that are not final yet.

    ``called`` and ``looks_at_all`` are for any thread, all other methods for the writer's.

    :param make_room: waits while the queue of calls to render is full. Returns whether one more call is recorded.
    """

    def __init__(self, make_room: Callable[[EventQueue], bool]) -> None:
        self._make_room = make_room
        #: Future, numbers of the tasks that it waits for, and time of each call, one after the other. A tuple for each
        #: call would cost the garbage collector more than the calls themselves.
        self.queue = EventQueue()
        #: Calls that are no longer in the queue and that no batch has, in a deque like ``_unfinished``.
        self._new: deque[tuple[CallRecord, Any]] = deque()
        #: The calls that a batch has. Each has its future or, once it is known, its end.
        self._unfinished: deque[tuple[CallRecord, Any]] = deque()
        #: True if the next batches check all calls for their end.
        self.looks_at_all = False

    def called(self, future: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        """Records that a call was submitted. The arguments are not kept."""
        depends = ""
        if kwargs or not FUTURELESS_TYPES.issuperset(map(type, args)):
            depends = _dependencies((*args, *kwargs.values()))
        queue = self.queue
        if queue.is_full and not self._make_room(queue):
            return
        queue.items.extend((future, depends, time.time()))
        queue.size += EVENT_SIZE + len(depends)

    def release_results(self) -> None:
        """Replaces the futures of calls that have ended, which hold their results, by what the tables need."""
        self._take(len(self.queue.items) // _PARTS)
        for calls in (self._new, self._unfinished):
            for _ in range(len(calls)):
                record, end = calls.popleft()
                if not isinstance(end, Ended) and (ended := Ended.of(end)) is not None:
                    # There may be as many texts as calls.
                    end = ended._replace(history=middle_cut(ended.history, EVENT_SIZE))
                calls.append((record, end))

    def batches(self, make: Callable[[], Batch], count_max: int) -> Iterator[Batch]:
        """Yields batches of the calls that were submitted, and of those that have become final, since the last time.

        :param make: makes an empty batch.
        :param count_max: calls that one batch records, and that it checks.
        """
        new = len(self._new) + len(self.queue.items) // _PARTS
        looks = len(self._unfinished) + new
        if self.looks_at_all:
            # Those that go on are met again before the newest ones.
            looks *= 2
        else:
            # With more looks than new calls, those that are final never become more than those that are not.
            looks = min(looks, max(_LOOKS_MIN, 2 * new))
        self.looks_at_all = False
        for start in range(0, max(new, looks), count_max):
            batch = make()
            self._begin(batch, min(new - start, count_max))
            self._look(batch, min(looks - start, count_max))
            yield batch

    def _take(self, count: int) -> None:
        """Takes calls from the queue. They still count for its size."""
        take = self.queue.items.popleft
        for _ in range(count):
            future, depends, at = take(), take(), take()
            self._new.append((_record(future, depends, at), future))
        self.queue.held_count = len(self._new)

    def _begin(self, batch: Batch, count: int) -> None:
        """Adds calls that were submitted since the last batch."""
        self._take(count - len(self._new))
        size = 0
        for _ in range(count):
            record, end = self._new.popleft()
            size += EVENT_SIZE + len(record.depends)
            at = record.time_invoked
            batch.moved(record.id, record, States.pending, at, _attempt(record, None))
            self._unfinished.append((record, end))
        self.queue.held_count = len(self._new)
        self.queue.note_taken(size)

    def _look(self, batch: Batch, count: int) -> None:
        """Checks calls, and records those that have become final since the last check."""
        for _ in range(min(count, len(self._unfinished))):
            record, end = self._unfinished.popleft()
            ended = end if isinstance(end, Ended) else Ended.of(end)
            if ended is not None:
                _end(batch, record, ended)
                continue
            if record.status is States.pending and end._look() == "running":
                _launch(batch, record, end.timings())
            self._unfinished.append((record, end))


def _dependencies(values: Iterable[Any]) -> str:
    """Returns the numbers of the tasks whose futures are among some arguments."""
    gather = DEEP_DEPENDENCY_RESOLVER.traverse_to_gather
    return numbers_of(
        one for value in values if type(value) not in FUTURELESS_TYPES for one in gather(value)
    )


def _record(future: Any, depends: str, at: float) -> CallRecord:
    fast_path = future._app
    return CallRecord(future.tid, fast_path.label, fast_path.app.__name__, depends, at)


def _attempt(record: CallRecord, returned: float | None, history: str = "") -> Attempt:
    return Attempt(0, record.executor, record.try_time_launched, returned, history, None)


def _launch(batch: Batch, record: CallRecord, timings: Timings) -> None:
    if record.status is States.pending and timings.written is not None:
        record.status = States.launched
        record.try_time_launched = _after(record, timings.written)
        attempt = _attempt(record, None)
        batch.moved(record.id, record, States.launched, record.try_time_launched, attempt)


def _end(batch: Batch, record: CallRecord, ended: Ended) -> None:
    timings = ended.timings
    _launch(batch, record, timings)
    if timings.started is not None and timings.ended is not None:
        began, end = _after(record, timings.started), _after(record, timings.ended)
        found = Measured(platform.node(), OWN_BLOCK, 0, began, end, [])
        batch.ran(record.id, 0, record.executor, found)
    drained = timings.drained
    record.time_returned = ended.found_at if drained is None else _after(record, drained)
    record.status = ended.status
    if record.status in (States.failed, States.dep_fail):
        record.fail_count, record.fail_cost = 1, 1.0
    returned = record.time_returned if record.try_time_launched is not None else None
    attempt = _attempt(record, returned, ended.history)
    batch.moved(record.id, record, record.status, record.time_returned, attempt)


def _after(record: CallRecord, nanoseconds: int) -> float:
    return record.time_invoked + nanoseconds / 1e9
