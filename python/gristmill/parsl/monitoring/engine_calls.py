"""Calls that the engine runs all by itself: nobody sees their steps, and their tags tell of them afterwards."""

from __future__ import annotations

import platform
import time
from collections import deque
from typing import TYPE_CHECKING, Any

from gristmill.parsl.dependencies import DEEP_DEPENDENCY_RESOLVER
from gristmill.parsl.monitoring.facts import OWN_BLOCK
from gristmill.parsl.monitoring.measure import Measured
from gristmill.parsl.monitoring.writer import EVENTS_MAX
from gristmill.parsl.states import States
from gristmill.parsl.tasks import TaskRecord

if TYPE_CHECKING:
    from collections.abc import Callable

    from gristmill.parsl.monitoring.rows import Batch

#: Of how many calls one batch asks whether they are final: with millions outstanding it takes a few batches to see all.
_LOOKS_MAX = 50_000
#: What is kept of a call until it is rendered.
_PARTS = 4
#: As many calls as of other events may wait to be rendered.
_NEW_MAX = _PARTS * EVENTS_MAX


class EngineCalls:
    """The calls that are not final yet; all but ``called`` is for the writer's thread alone.

    :param make_room: waits until a list that waits to be rendered is no longer than a length.
    """

    def __init__(self, make_room: Callable[[deque[Any], int], None]) -> None:
        self._make_room = make_room
        #: Future, arguments, named ones and time, one after the other: a tuple for each call would be more for the
        #: collector to look at than the calls themselves.
        self._new: deque[Any] = deque()
        self._unfinished: deque[tuple[TaskRecord, Any]] = deque()

    def called(self, future: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        """A call was submitted."""
        self._new.extend((future, args, kwargs or None, time.time()))
        if len(self._new) > _NEW_MAX:
            self._make_room(self._new, _NEW_MAX)

    def begin(self, batch: Batch) -> None:
        """Takes in those that were submitted since."""
        take = self._new.popleft
        for _ in range(len(self._new) // _PARTS):
            future, args, kwargs, at = take(), take(), take(), take()
            record = _record(future, (*args, *kwargs.values()) if kwargs else args, at)
            batch.moved(record, States.pending, at, 0, (None, None), [])
            self._unfinished.append((record, future))

    def look(self, batch: Batch, all_of_them: bool) -> None:
        """Finds those that have become final since."""
        count = len(self._unfinished)
        for _ in range(count if all_of_them else min(count, _LOOKS_MAX)):
            record, future = self._unfinished.popleft()
            state = future._look()
            if state in ("succeeded", "failed", "cancelled"):
                _end(batch, record, future)
                continue
            if state == "running" and record.status is States.pending:
                _launch(batch, record, future.tags())
            self._unfinished.append((record, future))


def _record(future: Any, arguments: tuple[Any, ...], at: float) -> TaskRecord:
    gather = DEEP_DEPENDENCY_RESOLVER.traverse_to_gather
    lane = future._app
    return TaskRecord(
        id=future.tid,
        dfk=None,
        executor=lane.label,
        func=lane.app.plain_function,
        func_name=lane.app.__name__,
        # The arguments are the task's: a record is kept longer.
        args=(),
        kwargs={},
        resource_specification={},
        depends=[one for value in arguments for one in gather(value)],
        memoize=False,
        time_invoked=at,
    )


def _launch(batch: Batch, record: TaskRecord, tags: dict[str, int]) -> None:
    if record.status is States.pending and "written" in tags:
        record.status = States.launched
        record.try_time_launched = _after(record, tags["written"])
        times = (record.try_time_launched, None)
        batch.moved(record, States.launched, record.try_time_launched, 0, times, [])


def _end(batch: Batch, record: TaskRecord, future: Any) -> None:
    tags = future.tags()
    _launch(batch, record, tags)
    if "started" in tags and "ended" in tags:
        began, ended = _after(record, tags["started"]), _after(record, tags["ended"])
        found = Measured(platform.node(), OWN_BLOCK, 0, began, ended, [])
        batch.ran(record.id, 0, record.executor, found)
    record.time_returned = _after(record, tags["drained"]) if "drained" in tags else time.time()
    record.status = future._status()
    failures = []
    if record.status is States.failed:
        record.fail_count, record.fail_cost = 1, 1.0
        failures = [repr(future.exception())]
    elif record.status is States.cancelled:
        failures = ["CancelledError()"]
    returned = record.time_returned if record.try_time_launched is not None else None
    times = (record.try_time_launched, returned)
    batch.moved(record, record.status, record.time_returned, 0, times, failures)


def _after(record: TaskRecord, nanoseconds: int) -> float:
    assert record.time_invoked is not None, "set when the record was made"
    return record.time_invoked + nanoseconds / 1e9
