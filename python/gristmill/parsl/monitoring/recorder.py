"""What the kernel tells when its ``MonitoringHub`` is ours."""

from __future__ import annotations

import atexit
import os
import platform
import time
import uuid
from typing import TYPE_CHECKING, Any

from gristmill._native import Future as NativeFuture
from gristmill._native import cpu_count
from gristmill.parsl.executors.engine import GristmillExecutor
from gristmill.parsl.monitoring import facts
from gristmill.parsl.monitoring.blocks import Blocks, Intake
from gristmill.parsl.monitoring.engine_calls import EngineCalls
from gristmill.parsl.monitoring.measure import Measured, measured, taken_from, value_in
from gristmill.parsl.monitoring.monitor import Monitor, Watch
from gristmill.parsl.monitoring.rows import Batch, text_of
from gristmill.parsl.monitoring.workflow import began, counts
from gristmill.parsl.monitoring.writer import Writer
from gristmill.parsl.states import States

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from concurrent.futures import Future

    from gristmill.parsl.monitoring.database import Rows
    from gristmill.parsl.monitoring.hub import MonitoringHub
    from gristmill.parsl.tasks import TaskRecord

#: Of how many functions the measured ones are kept: a worker that knows a function is not sent it again.
_FUNCTIONS_MAX = 256


class Recorder(Monitor):
    """Records one run in a database.

    :param hub: what and where.
    :param kernel: whose run.
    """

    def __init__(self, hub: MonitoringHub, kernel: Any) -> None:
        self._kernel = kernel
        self._run_id: str = kernel.run_id
        self._interval = hub.resource_monitoring_interval
        self._is_measuring = hub.resource_monitoring_enabled
        #: By the identity of a function: it and what was made of it, for executors that take readings or not.
        self._measured: dict[tuple[int, bool], tuple[Any, Callable[..., Any]]] = {}
        #: Labels of those executors whose workers are ours.
        self._engines: set[str] = set()
        self._blocks: Blocks | None = None
        self._is_closing = False
        self._calls = EngineCalls(lambda *waiting: self._writer.make_room(*waiting))
        self._writer = Writer(hub.open(kernel.config.run_dir), self._render)
        self._put = self._writer.put
        row = began(hub, kernel)
        row["time_began"] = text_of(row["time_began"])
        self._put((Batch.add, "workflow", row))
        atexit.register(self.close)

    def add_executor(self, executor: Any) -> None:
        """Records the node that our own workers are on: this one; Parsl's executors say themselves where theirs are."""
        if hasattr(executor, "poll_facade"):
            if self._blocks is None:
                self._blocks = Blocks(self._add_row)
            executor.monitoring_messages = self._blocks.messages
        if not isinstance(executor, GristmillExecutor):
            return
        executor.monitoring_messages = Intake(self._add_row)
        now = text_of(time.time())
        node = {
            "id": None,
            "run_id": self._run_id,
            "hostname": platform.node(),
            "uid": str(uuid.uuid4()),
            "block_id": facts.OWN_BLOCK,
            "cpu_count": os.cpu_count() or 1,
            "total_memory": os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"),
            "active": True,
            "worker_count": executor.max_workers or cpu_count(),
            "python_v": platform.python_version(),
            "timestamp": now,
            "last_heartbeat": now,
        }
        self._engines.add(executor.label)
        self._put((Batch.add, "node", node))

    def _add_row(self, table: str, row: dict[str, Any]) -> None:
        self._put((Batch.add, table, row))

    def moved(self, task: TaskRecord) -> None:
        """A task came into another state."""
        state = task.status
        times = (task.try_time_launched, task.try_time_returned)
        # A worker may have begun it before the executor's ``submit`` has returned.
        is_launched = state is States.launched and task.try_time_launched is not None
        at = task.try_time_launched if is_launched else time.time()
        self._put((Batch.moved, task, state, at, task.try_id, times, facts.failures(task)))

    @property
    def watch(self) -> Watch | None:
        """Calls need not be measured and are not tried again: their tags tell all that the tables want to know."""
        is_enough = not self._is_measuring and self._kernel.config.retries == 0
        return self._calls.called if is_enough else None

    def submission(
        self, task: TaskRecord, executor: Any
    ) -> tuple[Callable[..., Any], Sequence[Any], dict[str, Any]]:
        """The call to give to the executor: measured, if the hub says so."""
        function = task.func
        if self._is_measuring:
            function = self._measured_function(function, executor.monitor_resources())
        return function, task.args, task.kwargs

    def _measured_function(
        self, function: Callable[..., Any], takes_readings: bool
    ) -> Callable[..., Any]:
        key = (id(function), takes_readings)
        known = self._measured.get(key)
        if known is None:
            if len(self._measured) >= _FUNCTIONS_MAX:
                self._measured.clear()
            known = (function, measured(function, self._interval if takes_readings else 0))
            self._measured[key] = known
        return known[1]

    def value_of(self, task: TaskRecord, attempt: Future[Any], result: Any) -> Any:
        """The task's own value, in what an attempt gave."""
        value, found = value_in(result)
        self._ran(task, attempt, found)
        return value

    def raised(self, task: TaskRecord, attempt: Future[Any], error: BaseException) -> None:
        """An attempt raised this."""
        self._ran(task, attempt, taken_from(error))

    def _ran(self, task: TaskRecord, attempt: Future[Any], found: Measured | None) -> None:
        if found is None and isinstance(attempt, NativeFuture):
            found = _from_tags(task, attempt)
        if found is not None:
            if found.block_id is None and task.executor in self._engines:
                found = found._replace(block_id=facts.OWN_BLOCK)
            self._put((Batch.ran, task.id, task.try_id, task.executor, found))

    def close(self) -> None:
        """Records that the run has ended, and writes all that is left."""
        atexit.unregister(self.close)
        if self._blocks is not None:
            self._blocks.close()
        self._is_closing = True
        now = text_of(time.time())
        self._put((Batch.change, "workflow", {"time_completed": now}))
        if self._engines:
            self._put((Batch.change, "node", {"active": False, "last_heartbeat": now}))
        self._writer.close()

    def _render(self, events: Sequence[Any]) -> list[Rows]:
        batch = Batch(self._run_id, self._interval)
        for event in events:
            event[0](batch, *event[1:])
        self._calls.begin(batch)
        self._calls.look(batch, all_of_them=self._is_closing)
        if not batch.is_empty:
            batch.change("workflow", counts(self._kernel))
        return batch.rows()


def _from_tags(task: TaskRecord, attempt: NativeFuture[Any]) -> Measured | None:
    """When the engine says that an attempt ran."""
    tags, launched = attempt.tags(), task.try_time_launched
    if launched is None or "started" not in tags or "ended" not in tags:
        return None
    began, ended = launched + tags["started"] / 1e9, launched + tags["ended"] / 1e9
    return Measured(platform.node(), None, 0, began, ended, [])
