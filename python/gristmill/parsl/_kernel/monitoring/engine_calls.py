"""Monitoring of calls that the engine runs alone, without observing their steps, from their timings afterwards."""

from __future__ import annotations

import platform
import time
from collections import deque
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from gristmill.parsl._kernel.dependencies import DEEP_DEPENDENCY_RESOLVER
from gristmill.parsl._kernel.monitoring.facts import OWN_BLOCK
from gristmill.parsl._kernel.monitoring.measure import Measured
from gristmill.parsl._kernel.monitoring.writer import EVENTS_MAX
from gristmill.parsl._kernel.states import States

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from gristmill._timings import Timings
    from gristmill.parsl._kernel.monitoring.rows import Batch

#: Calls that one batch checks for their end. With millions outstanding, it takes a few batches to check all.
_LOOKS_MAX = 50_000
#: Number of items that are queued for one call until it is rendered.
_PARTS = 4
#: Number of queued items for as many calls as other events may wait to be rendered.
_NEW_MAX = _PARTS * EVENTS_MAX


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
    depends: list[Any]
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


class EngineCalls:
    """The calls that are not final yet. Only ``called`` may be used outside of the writer's thread.

    :param make_room: waits until a queue of items to render is at most as long as the given length.
    """

    def __init__(self, make_room: Callable[[deque[Any], int], None]) -> None:
        self._make_room = make_room
        #: Future, arguments, named arguments and time of each call, one after the other. A tuple for each call would
        #: cost the garbage collector more than the calls themselves.
        self._new: deque[Any] = deque()
        self._unfinished: deque[tuple[CallRecord, Any]] = deque()

    def called(self, future: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        """Records that a call was submitted."""
        self._new.extend((future, args, kwargs or None, time.time()))
        if len(self._new) > _NEW_MAX:
            self._make_room(self._new, _NEW_MAX)

    def begin(self, batch: Batch) -> None:
        """Adds the calls that were submitted since the last batch."""
        take = self._new.popleft
        for _ in range(len(self._new) // _PARTS):
            future, args, kwargs, at = take(), take(), take(), take()
            record = _record(future, (*args, *kwargs.values()) if kwargs else args, at)
            batch.moved(record, States.pending, at, 0, (None, None), [])
            self._unfinished.append((record, future))

    def look(self, batch: Batch, all_of_them: bool) -> None:
        """Records the calls that have become final since the last check."""
        count = len(self._unfinished)
        for _ in range(count if all_of_them else min(count, _LOOKS_MAX)):
            record, future = self._unfinished.popleft()
            state = future._look()
            if state in ("succeeded", "failed", "cancelled"):
                _end(batch, record, future)
                continue
            if state == "running" and record.status is States.pending:
                _launch(batch, record, future.timings())
            self._unfinished.append((record, future))


def _record(future: Any, arguments: tuple[Any, ...], at: float) -> CallRecord:
    gather = DEEP_DEPENDENCY_RESOLVER.traverse_to_gather
    fast_path = future._app
    return CallRecord(
        future.tid,
        fast_path.label,
        fast_path.app.__name__,
        [one for value in arguments for one in gather(value)],
        at,
    )


def _launch(batch: Batch, record: CallRecord, timings: Timings) -> None:
    if record.status is States.pending and timings.written is not None:
        record.status = States.launched
        record.try_time_launched = _after(record, timings.written)
        times = (record.try_time_launched, None)
        batch.moved(record, States.launched, record.try_time_launched, 0, times, [])


def _end(batch: Batch, record: CallRecord, future: Any) -> None:
    timings = future.timings()
    _launch(batch, record, timings)
    if timings.started is not None and timings.ended is not None:
        began, ended = _after(record, timings.started), _after(record, timings.ended)
        found = Measured(platform.node(), OWN_BLOCK, 0, began, ended, [])
        batch.ran(record.id, 0, record.executor, found)
    drained = timings.drained
    record.time_returned = time.time() if drained is None else _after(record, drained)
    record.status = future._status()
    failures = []
    if record.status in (States.failed, States.dep_fail):
        record.fail_count, record.fail_cost = 1, 1.0
        failures = [repr(future.exception())]
    elif record.status is States.cancelled:
        failures = ["CancelledError()"]
    returned = record.time_returned if record.try_time_launched is not None else None
    times = (record.try_time_launched, returned)
    batch.moved(record, record.status, record.time_returned, 0, times, failures)


def _after(record: CallRecord, nanoseconds: int) -> float:
    return record.time_invoked + nanoseconds / 1e9
