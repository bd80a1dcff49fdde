"""Which tasks of a kernel are not final, and how many are in which state."""

from __future__ import annotations

import threading
from concurrent.futures import Future
from typing import TYPE_CHECKING, Any

from gristmill._native import Future as NativeFuture
from gristmill.parsl.back_pressure import BackPressure
from gristmill.parsl.states import FINAL_STATES, States

if TYPE_CHECKING:
    from collections.abc import Callable

    from gristmill.parsl.tasks import TaskRecord


class Census:
    """Knows each task from the moment it is taken in until it is final.

    :param config: the kernel's configuration: how many tasks may be outstanding, and whether to forget final ones.
    """

    def __init__(self, config: Any) -> None:
        #: Guards all of this, and every task's state; never held while foreign code runs.
        self.lock = threading.Lock()
        self.tasks: dict[int, TaskRecord] = {}
        self.counts = dict.fromkeys(States, 0)
        #: How many tasks of each executor are not final, by its label.
        self.outstanding: dict[str, int] = {}
        self.back_pressure = BackPressure(
            getattr(config, "task_limit", None), lambda: self._open_count, self.lock
        )
        #: What became of the attempts on Gristmill's engine, whose own numbers have them too.
        self.engine_attempts = dict.fromkeys(("submitted", "succeeded", "failed", "cancelled"), 0)
        #: Told of each change of a state.
        self.observers: list[Callable[[TaskRecord], None]] = []
        self._open_count = 0
        self._forgets_final = bool(config.garbage_collect)

    def take_in(self, task: TaskRecord) -> None:
        """A task is there."""
        with self.lock:
            self.counts[States.pending] += 1
            self.tasks[task.id] = task
            self._open_count += 1
            self.outstanding[task.executor] = self.outstanding.get(task.executor, 0) + 1
        self._tell(task)

    def move(self, task: TaskRecord, state: States) -> bool:
        """Brings a task into a state; ``False``, and nothing has happened, if it was final already."""
        with self.lock:
            if task.status in FINAL_STATES:
                return False
            self.counts[task.status] -= 1
            self.counts[state] += 1
            task.status = state
            if state in FINAL_STATES:
                self._end(task)
        self._tell(task)
        return True

    def _end(self, task: TaskRecord) -> None:
        self._open_count -= 1
        self.outstanding[task.executor] -= 1
        self.back_pressure.made_room()

    def forget(self, task: TaskRecord) -> None:
        """A task's future is final too: whoever waits for all tasks need not wait for this one."""
        if self._forgets_final:
            self.tasks.pop(task.id, None)

    def _tell(self, task: TaskRecord) -> None:
        for observer in self.observers:
            observer(task)

    def count_recalled(self) -> None:
        """A task was answered without ever being here."""
        with self.lock:
            self.counts[States.memo_done] += 1

    def count_attempt(self, attempt: Future[Any], outcome: str) -> None:
        """Something happened to an attempt: one of the keys of ``engine_attempts``."""
        if isinstance(attempt, NativeFuture):
            with self.lock:
                self.engine_attempts[outcome] += 1
