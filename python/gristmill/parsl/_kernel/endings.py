"""The end of a task: the memoizer is notified, then the state becomes final, then the future."""

from __future__ import annotations

import logging
import time
from concurrent.futures import CancelledError, InvalidStateError
from typing import TYPE_CHECKING, Any

from gristmill import _forked
from gristmill._remote import MESSAGE_MAX, middle_cut
from gristmill.parsl._kernel.callbacks import is_interrupt
from gristmill.parsl._kernel.memoizer import is_passive
from gristmill.parsl._kernel.states import FINAL_STATES, States

if TYPE_CHECKING:
    from collections.abc import Callable

    from gristmill.parsl._kernel.task_states import TaskStates
    from gristmill.parsl._kernel.tasks import Task

_log = logging.getLogger("parsl.gristmill.kernel")


class Endings:
    """The end of each task, exactly once: later attempts to end it have no effect.

    :param task_states: records which tasks have ended.
    :param memoizer: notified of each end before the program can see it.
    """

    def __init__(self, task_states: TaskStates, memoizer: Any) -> None:
        self._task_states = task_states
        self._memoizer = memoizer
        self._tells_memoizer_all = not is_passive(memoizer)

    def concerns_memoizer(self, task: Task) -> bool:
        """Returns whether the memoizer handles a task."""
        return self._tells_memoizer_all or bool(task.memoize)

    def guard(self, task: Task, step: Callable[..., None], *arguments: Any) -> None:
        """Runs a step of a task. An exception of the step ends the task, so that its future always becomes final.

        Ctrl-C during a step in the main thread also propagates to the program.
        """
        try:
            step(task, *arguments)
        except BaseException as error:
            if task.status not in FINAL_STATES:
                _log.exception("task %s ends because a step of the kernel failed", task.id)
                self.fail(task, States.failed, error)
            if is_interrupt(error):
                raise

    def succeed(self, task: Task, state: States, value: Any) -> None:
        """Ends a task with a value."""
        task.time_returned = time.time()
        try:
            if self.concerns_memoizer(task):
                _forked.guarded(self._memoizer.update_memo_result, task.shared(), value)
        except Exception as error:
            _log.exception("the result of task %s could not be memoized", task.id)
            self.fail(task, States.failed, error)
            return
        self._end(task, state, task.app_fu.set_result, value)

    def fail(self, task: Task, state: States, error: BaseException) -> None:
        """Ends a task with an exception."""
        task.time_returned = time.time()
        self._memoize_failure(task, error)
        self._end(task, state, task.app_fu.set_exception, error)

    def cancel(self, task: Task) -> None:
        """Ends a task as cancelled, with neither a value nor an exception."""
        task.time_returned = time.time()
        if not task.from_memo:
            self._memoize_failure(task, CancelledError())
        self._end(task, States.cancelled, task.app_fu.set_cancelled)

    def _end(self, task: Task, state: States, show: Callable[..., None], *outcome: Any) -> None:
        """Makes a task final, and then its future. Only the first end of a task counts."""
        if not self._task_states.move(task, state):
            return
        try:
            show(*outcome)
        except InvalidStateError:
            _log.exception("the program itself has completed the future of task %s", task.id)
        except BaseException:
            # A signal handler has raised. The threads that wait for the future must be woken all the same.
            if not task.app_fu.done():
                show(*outcome)
            raise
        finally:
            if self._task_states.forget(task):
                task.let_go()

    def _memoize_failure(self, task: Task, error: BaseException) -> None:
        try:
            if self.concerns_memoizer(task):
                _forked.guarded(self._memoizer.update_memo_exception, task.shared(), error)
        except BaseException as raised:
            _log.exception("the failure of task %s could not be memoized", task.id)
            if is_interrupt(raised):
                raise


def repr_of(error: BaseException) -> str:
    """Returns the ``repr`` of an exception, or a substitute if ``repr`` raises. The middle of a long one is omitted."""
    try:
        return middle_cut(_forked.guarded(repr, error), MESSAGE_MAX)
    except Exception as raised:
        return f"<{type(error).__name__}, whose repr raised {type(raised).__name__}>"
