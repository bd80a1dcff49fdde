"""The monitor for our own ``MonitoringHub``."""

from __future__ import annotations

import atexit
import os
import platform
import time
import uuid
import weakref
from typing import TYPE_CHECKING, Any

from gristmill import _resources
from gristmill._native import Future as NativeFuture
from gristmill._native import cpu_count
from gristmill.parsl._kernel.executors.engine import GristmillExecutor
from gristmill.parsl._kernel.monitoring import facts
from gristmill.parsl._kernel.monitoring.blocks import Blocks, Intake
from gristmill.parsl._kernel.monitoring.engine_calls import EngineCalls
from gristmill.parsl._kernel.monitoring.measure import Measured, taken_from, value_in
from gristmill.parsl._kernel.monitoring.measured_functions import MeasuredFunctions
from gristmill.parsl._kernel.monitoring.monitor import Monitor, Watch
from gristmill.parsl._kernel.monitoring.rows import Attempt, Batch, time_text
from gristmill.parsl._kernel.monitoring.workflow import began, counts
from gristmill.parsl._kernel.monitoring.writer import EVENT_SIZE, Writer
from gristmill.parsl._kernel.states import FINAL_STATES, States

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from concurrent.futures import Future

    from gristmill.parsl._kernel.monitoring.database import Rows
    from gristmill.parsl._kernel.monitoring.hub import MonitoringHub
    from gristmill.parsl._kernel.tasks import Task

#: Events, and calls of the engine, that become the rows of one batch.
_BATCH_MAX = 1 << 14
#: Bytes of one reading.
_READING_SIZE = 600


class Recorder(Monitor):
    """A monitor that records one run in a database.

    :param hub: the options, and the database.
    :param kernel: the kernel whose run it records.
    """

    def __init__(self, hub: MonitoringHub, kernel: Any) -> None:
        self._kernel = kernel
        self._run_id: str = kernel.run_id
        self._interval = hub.resource_monitoring_interval
        self._is_measuring = hub.resource_monitoring_enabled
        self._measured = MeasuredFunctions()
        #: Labels of the executors whose workers are ours.
        self._engines: set[str] = set()
        self._blocks: Blocks | None = None
        self._is_closing = False
        self._calls = EngineCalls(lambda queue: self._writer.make_room(queue))
        database = hub.open(kernel.config.run_dir)
        self._writer = Writer(database, self._render, self._calls.release_results)
        self._put = self._writer.put
        if self.watch is not None:
            # The calls that are not recorded yet hold their results.
            step = self._calls.queue.size_max
            kernel.fetched_bytes.watch(step, _hurrier(weakref.ref(self)))
        row = began(hub, kernel)
        row["time_began"] = time_text(row["time_began"])
        self._put((Batch.add, "workflow", row))
        atexit.register(self.close)

    def add_executor(self, executor: Any) -> None:
        """Registers an executor. For Gristmill's, records this machine as a node; Parsl's report their nodes."""
        if hasattr(executor, "poll_facade"):
            if self._blocks is None:
                self._blocks = Blocks(self._add_row)
            executor.monitoring_messages = self._blocks.messages
        if not isinstance(executor, GristmillExecutor):
            return
        executor.monitoring_messages = Intake(self._add_row)
        now = time_text(time.time())
        node = {
            "id": None,
            "run_id": self._run_id,
            "hostname": platform.node(),
            "uid": str(uuid.uuid4()),
            "block_id": facts.OWN_BLOCK,
            "cpu_count": os.cpu_count() or 1,
            "total_memory": _resources.memory_of_machine(),
            "active": True,
            "worker_count": executor.max_workers or cpu_count(),
            "python_v": platform.python_version(),
            "timestamp": now,
            "last_heartbeat": now,
        }
        self._engines.add(executor.label)
        self._put((Batch.add, "node", node))

    def _add_row(self, table: str, row: dict[str, Any]) -> None:
        self._put((Batch.add, table, row), EVENT_SIZE + facts.size_of_texts(row.values()))

    def moved(self, task: Task) -> None:
        """Records a task's change of state. What is queued does not keep the task's arguments in memory."""
        state = task.status
        # A worker may have begun the task before the executor's ``submit`` has returned.
        is_launched = state is States.launched and task.try_time_launched is not None
        at = task.try_time_launched if is_launched else time.time()
        attempt = Attempt(
            task.try_id,
            task.executor,
            task.try_time_launched,
            task.try_time_returned,
            ",".join(facts.failures(task)),
            facts.joined(task),
        )
        size = EVENT_SIZE + attempt.size
        known: facts.TaskFacts | weakref.ref[Task] = weakref.ref(task)
        if state in FINAL_STATES:
            known = facts.facts_of(task)
            size += known.size
        self._put((Batch.moved, task.id, known, state, at, attempt), size)

    @property
    def watch(self) -> Watch | None:
        """The callback for calls of the engine; ``None`` if calls are measured or retried.

        For other calls, the timings of the engine contain all that the tables need.
        """
        is_enough = not self._is_measuring and self._kernel.config.retries == 0
        return self._calls.called if is_enough else None

    def hurry(self) -> None:
        """Records the calls that have ended, and releases their results."""
        self._calls.looks_at_all = True
        self._writer.hurry()

    def submission(
        self, task: Task, executor: Any, function: Callable[..., Any]
    ) -> tuple[Callable[..., Any], Sequence[Any], dict[str, Any]]:
        """Returns the call to submit to the executor, measured if the hub asks for it."""
        if self._is_measuring:
            interval = self._interval if executor.monitor_resources() else 0
            function = self._measured.get(function, interval)
        return function, task.args, task.kwargs

    def value_of(self, task: Task, attempt: Future[Any], result: Any) -> Any:
        """Returns the task's own value from the value of an attempt."""
        value, found = value_in(result)
        self._ran(task, attempt, found)
        return value

    def raised(self, task: Task, attempt: Future[Any], error: BaseException) -> None:
        """Records the measurements in the exception of an attempt."""
        self._ran(task, attempt, taken_from(error))

    def _ran(self, task: Task, attempt: Future[Any], found: Measured | None) -> None:
        if found is None and isinstance(attempt, NativeFuture):
            found = _from_timings(task, attempt)
        if found is not None:
            if found.block_id is None and task.executor in self._engines:
                found = found._replace(block_id=facts.OWN_BLOCK)
            size = EVENT_SIZE + _READING_SIZE * len(found.readings)
            self._put((Batch.ran, task.id, task.try_id, task.executor, found), size)

    def close(self) -> None:
        """Records that the run has ended, and writes all queued events."""
        atexit.unregister(self.close)
        if self._blocks is not None:
            self._blocks.close()
        self._is_closing = True
        now = time_text(time.time())
        last: list[tuple[Any, ...]] = [(Batch.change, "workflow", {"time_completed": now})]
        if self._engines:
            last.append((Batch.change, "node", {"active": False, "last_heartbeat": now}))
        self._writer.close(last)

    def _render(self, events: Sequence[Any]) -> Iterator[list[Rows]]:
        for start in range(0, len(events), _BATCH_MAX):
            batch = self._new_batch()
            for event in events[start : start + _BATCH_MAX]:
                event[0](batch, *event[1:])
            yield from self._rows_of(batch)
        self._calls.looks_at_all |= self._is_closing
        for batch in self._calls.batches(self._new_batch, _BATCH_MAX):
            yield from self._rows_of(batch)

    def _new_batch(self) -> Batch:
        return Batch(self._run_id, self._interval)

    def _rows_of(self, batch: Batch) -> Iterator[list[Rows]]:
        if not batch.is_empty:
            batch.change("workflow", counts(self._kernel))
            yield from batch.rows()


def _hurrier(reference: weakref.ref[Recorder]) -> Callable[[], None]:
    def hurry() -> None:
        recorder = reference()
        if recorder is not None:
            recorder.hurry()

    return hurry


def _from_timings(task: Task, attempt: NativeFuture[Any]) -> Measured | None:
    """Returns the times at which an attempt ran, according to the engine."""
    timings, launched = attempt.timings(), task.try_time_launched
    if launched is None or timings.started is None or timings.ended is None:
        return None
    began, ended = launched + timings.started / 1e9, launched + timings.ended / 1e9
    return Measured(platform.node(), None, 0, began, ended, [])
