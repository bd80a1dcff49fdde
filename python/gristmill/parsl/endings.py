"""How a task ends: the memoizer learns of it, its state becomes final, and then its future."""

from __future__ import annotations

import logging
import time
from concurrent.futures import CancelledError
from typing import TYPE_CHECKING, Any

from gristmill.parsl.memoizer import is_passive
from gristmill.parsl.states import States

if TYPE_CHECKING:
    from gristmill.parsl.census import Census
    from gristmill.parsl.tasks import TaskRecord

_log = logging.getLogger("parsl.gristmill.kernel")


class Endings:
    """Ends tasks, each once: whoever comes second is too late.

    :param census: knows which have ended.
    :param memoizer: told of each end, before anybody sees it.
    """

    def __init__(self, census: Census, memoizer: Any) -> None:
        self._census = census
        self._memoizer = memoizer
        self._tells_memoizer_all = not is_passive(memoizer)

    def concerns_memoizer(self, task: TaskRecord) -> bool:
        """Whether the memoizer has a say in a task."""
        return task.memoize or self._tells_memoizer_all

    def succeed(self, task: TaskRecord, state: States, value: Any) -> None:
        """Ends a task with a value."""
        task.time_returned = time.time()
        try:
            if self.concerns_memoizer(task):
                self._memoizer.update_memo_result(task, value)
        except Exception as error:
            _log.exception("the result of task %s could not be memoized", task.id)
            self.fail(task, States.failed, error)
            return
        if self._census.move(task, state):
            task.app_fu.set_result(value)
            self._census.forget(task)

    def fail(self, task: TaskRecord, state: States, error: BaseException) -> None:
        """Ends a task with an exception."""
        task.time_returned = time.time()
        self._memoize_failure(task, error)
        if self._census.move(task, state):
            task.app_fu.set_exception(error)
            self._census.forget(task)

    def cancel(self, task: TaskRecord) -> None:
        """Ends a task without either."""
        task.time_returned = time.time()
        if not task.from_memo:
            self._memoize_failure(task, CancelledError())
        if self._census.move(task, States.cancelled):
            task.app_fu.set_cancelled()
            self._census.forget(task)

    def _memoize_failure(self, task: TaskRecord, error: BaseException) -> None:
        try:
            if self.concerns_memoizer(task):
                self._memoizer.update_memo_exception(task, error)
        except Exception:
            _log.exception("the failure of task %s could not be memoized", task.id)


def note_failure(task: TaskRecord, error: BaseException) -> None:
    """Writes a failure down in the task's record, whether or not the task ends with it."""
    task["fail_history"].append(repr(error))
    task.fail_count += 1
