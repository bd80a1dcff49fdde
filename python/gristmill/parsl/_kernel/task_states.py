"""The tasks of a kernel that are not final, and the number of tasks in each state."""

from __future__ import annotations

import logging
import threading
from collections import defaultdict
from concurrent.futures import Future
from typing import TYPE_CHECKING, Any

from gristmill._native import Future as NativeFuture
from gristmill.parsl._kernel.back_pressure import BackPressure
from gristmill.parsl._kernel.states import FINAL_STATES, States

if TYPE_CHECKING:
    from collections.abc import Callable

    from gristmill.parsl._kernel.tasks import Task

_log = logging.getLogger("parsl.gristmill.kernel")

#: A constant, because looking an enum member up is a call.
_PENDING = States.pending


class TaskStates:
    """The states of all tasks, from their submission until they are final.

    :param config: the kernel's configuration: how many tasks may be outstanding, and whether to forget final ones.
    """

    def __init__(self, config: Any) -> None:
        #: Guards all fields here, and every task's state. It is reentrant: signal handlers and destructors may run at
        #: any point, also inside the lock, and may call apps. For the same reason, no statement that changes a number
        #: makes a call.
        self.lock = threading.RLock()
        self.tasks: dict[int, Task] = {}
        self.counts = dict.fromkeys(States, 0)
        #: The number of tasks of each executor that are not final, by its label.
        self.outstanding: defaultdict[str, int] = defaultdict(int)
        self.back_pressure = BackPressure(
            getattr(config, "task_limit", None), lambda: self._open_count, self.lock
        )
        #: The number of attempts on Gristmill's engine by outcome. The engine's own statistics include them too.
        self.engine_attempts = dict.fromkeys(("submitted", "succeeded", "failed", "cancelled"), 0)
        #: Called at each change of a state.
        self.observers: list[Callable[[Task], None]] = []
        self._open_count = 0
        self._forgets_final = bool(config.garbage_collect)

    def take_in(self, task: Task) -> None:
        """Adds a task."""
        with self.lock:
            # All statements or none take effect: a signal handler may raise wherever there is a call.
            self.counts[_PENDING] += 1
            self.tasks[task.id] = task
            self._open_count += 1
            self._count_for(task, task.executor)
        self._tell(task)

    def knows(self, task: Task) -> bool:
        """Returns whether a task was added and has not been forgotten."""
        return self.tasks.get(task.id) is task

    def count_for(self, task: Task, label: str) -> None:
        """Counts a task for the executor that it is submitted to: a retry may use another one."""
        with self.lock:
            self._count_for(task, label)

    def _count_for(self, task: Task, label: str | None) -> None:
        if label is not None:
            self.outstanding[label] += 1
        if task.counted_label is not None:
            self.outstanding[task.counted_label] -= 1
        task.counted_label = label

    def move(self, task: Task, state: States) -> bool:
        """Moves a task to a state. If the task was final already, returns ``False`` and does nothing."""
        with self.lock:
            if task.status in FINAL_STATES:
                return False
            self.counts[task.status] -= 1
            self.counts[state] += 1
            task.status = state
            if state in FINAL_STATES:
                self._open_count -= 1
                self._end(task)
        self._tell(task)
        return True

    def _end(self, task: Task) -> None:
        self._count_for(task, None)
        self.back_pressure.made_room()

    def forget(self, task: Task) -> bool:
        """Forgets a task whose future is final, so that a wait for all tasks does not include it.

        Returns whether the task is forgotten. With ``garbage_collect=False`` tasks are never forgotten.
        """
        if self._forgets_final:
            self.tasks.pop(task.id, None)
        return self._forgets_final

    def _tell(self, task: Task) -> None:
        for observer in self.observers:
            try:
                observer(task)
            except Exception:
                _log.exception("a change of task %s to %s is not recorded", task.id, task.status)

    def count_recalled(self) -> None:
        """Counts a task that was answered from memory and never added."""
        with self.lock:
            self.counts[States.memo_done] += 1

    def count_attempt(self, attempt: Future[Any], outcome: str) -> None:
        """Counts an event of an attempt on the engine: one of the keys of ``engine_attempts``."""
        if isinstance(attempt, NativeFuture):
            with self.lock:
                self.engine_attempts[outcome] += 1
