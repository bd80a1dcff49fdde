"""The life of tasks whose steps need Python: waiting, launching, retrying, joining, ending.

A task waits until all futures among its arguments are final, is given to the memoizer and then to its executor, once
for each attempt, and ends in exactly one final state, which its future shows. Every executor with Parsl's interface
will do.

Steps run in the thread whose call or completion causes them, one after the other (see ``calls``); a task's state
changes under the lock of the ``Census``.
"""

from __future__ import annotations

import logging
import threading
import time
from concurrent.futures import CancelledError, Future
from functools import partial
from typing import TYPE_CHECKING, Any

from gristmill._errors import TaskTimeout
from gristmill._native import Future as NativeFuture
from gristmill.parsl.budgets import Budgets
from gristmill.parsl.calls import post
from gristmill.parsl.census import Census
from gristmill.parsl.endings import Endings, note_failure
from gristmill.parsl.joining import Joining, failures_of, joined_by
from gristmill.parsl.states import FINAL_STATES, States

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from gristmill.parsl.monitoring.monitor import Monitor
    from gristmill.parsl.tasks import TaskRecord

_log = logging.getLogger("parsl.gristmill.kernel")

#: Stands for an attempt that is just being made, or that never will be.
_CLAIMED: Future[Any] = Future()


class Graph:
    """Takes each task from step to step.

    :param config: the kernel's configuration: retries and who decides about them.
    :param executors: by label.
    :param memoizer: asked before each attempt, told of each end.
    :param resolver: finds futures in arguments.
    :param describe: says in a few words what a future is, for messages.
    """

    def __init__(
        self,
        config: Any,
        executors: dict[str, Any],
        memoizer: Any,
        resolver: Any,
        describe: Callable[[Future[Any]], str],
    ) -> None:
        self.census = Census(config)
        self._budgets = Budgets(config)
        self._executors = executors
        self._memoizer = memoizer
        self._resolver = resolver
        self._describe = describe
        self._endings = Endings(self.census, memoizer)
        self._joining = Joining(self.census, self._endings, describe)
        self._lock = self.census.lock
        self._move = self.census.move
        #: Executors get one call at a time.
        self._submitting = threading.Lock()
        #: Has a say in what is given to executors, and first sight of what they give back.
        self.monitor: Monitor | None = None

    def add(self, task: TaskRecord) -> None:
        """Takes a task in; it is launched once everything it waits for is final."""
        if not task.depends:
            self.census.take_in(task)
            post(self._launch, task)
            return
        unfinished = [future for future in task.depends if not future.done()]
        # One more than there are, so that nothing starts before all are watched.
        task.unfinished = len(unfinished) + 1
        self.census.take_in(task)
        for future in unfinished:
            future.add_done_callback(partial(self._dependency_done, task))
        post(self._arrive, task)

    def _dependency_done(self, task: TaskRecord, _future: Future[Any]) -> None:
        post(self._arrive, task)

    def _arrive(self, task: TaskRecord) -> None:
        with self._lock:
            task.unfinished -= 1
            is_ready = task.unfinished == 0
        if is_ready:
            self._launch(task)

    def _launch(self, task: TaskRecord) -> None:
        with self._lock:
            if task.status is not States.pending or task.exec_fu is not None:
                return
            task.exec_fu = _CLAIMED
        failures = self._unwrap(task) if task.depends and task.try_id == 0 else ()
        if failures:
            from gristmill.parsl.errors import DependencyError

            self._endings.fail(task, States.dep_fail, DependencyError(failures, task.id))
            return
        try:
            attempt = self._start(task)
        except Exception as error:
            self._attempt_failed(task, error)
            return
        except BaseException as interrupt:
            self._endings.fail(task, States.failed, interrupt)
            raise
        task.exec_fu = attempt
        attempt.add_done_callback(partial(self._attempt_done, task))

    def _unwrap(self, task: TaskRecord) -> Sequence[tuple[BaseException, str]]:
        """Puts values in the place of futures; gives the failures among these instead if there are some."""
        failures = failures_of(task.depends, self._describe)
        if failures:
            return failures
        unwrap = self._resolver.traverse_to_unwrap
        try:
            task.args = tuple(map(unwrap, task.args))
            for name, value in task.kwargs.items():
                task.kwargs[name] = list(map(unwrap, value)) if name == "inputs" else unwrap(value)
        except Exception as error:
            return [(error, "an argument")]
        return ()

    def _start(self, task: TaskRecord) -> Future[Any]:
        """Begins an attempt; what it raises is the attempt's failure."""
        task.try_time_launched = time.time()
        task.from_memo = False
        if self._endings.concerns_memoizer(task):
            known: Future[Any] | None = self._memoizer.check_memo(task)
            if known is not None:
                task.from_memo = True
                return known
        executor = self._executors.get(task.executor)
        if executor is None:
            raise ValueError(
                f"Task {task.id} requested invalid executor {task.executor}: there are "
                f"{', '.join(self._executors)}"
            )
        function, args, kwargs = task.func, task.args, task.kwargs
        if self.monitor is not None:
            function, args, kwargs = self.monitor.submission(task, executor)
        with self._submitting:
            attempt: Future[Any] = executor.submit(
                function, task.resource_specification, *args, **kwargs
            )
        task.exec_fu = attempt
        self.census.count_attempt(attempt, "submitted")
        self._move(task, States.launched)
        return attempt

    def _attempt_done(self, task: TaskRecord, attempt: Future[Any]) -> None:
        post(self._attempt_ended, task, attempt)

    def _attempt_ended(self, task: TaskRecord, attempt: Future[Any]) -> None:
        task.try_time_returned = time.time()
        try:
            value = self._result_of(task, attempt)
            if type(value).__name__ == "RemoteExceptionWrapper":
                value.reraise()
        except CancelledError:
            self.census.count_attempt(attempt, "cancelled")
            if task.from_memo:
                # Somebody cancelled the call that this one shared.
                self._launch_again(task)
            else:
                self._endings.cancel(task)
        except BaseException as error:
            self.census.count_attempt(attempt, "failed")
            self._attempt_failed(task, error)
        else:
            self.census.count_attempt(attempt, "succeeded")
            if task.from_memo:
                self._endings.succeed(task, States.memo_done, value)
            elif task.join:
                self._joining.join(task, value)
            else:
                self._endings.succeed(task, States.exec_done, value)

    def _result_of(self, task: TaskRecord, attempt: Future[Any]) -> Any:
        if self.monitor is None or task.from_memo:
            return attempt.result()
        try:
            return self.monitor.value_of(task, attempt, attempt.result())
        except CancelledError:
            raise
        except BaseException as error:
            self.monitor.raised(task, attempt, error)
            raise

    def _attempt_failed(self, task: TaskRecord, error: BaseException) -> None:
        from gristmill.parsl.errors import AppTimeout, DependencyError

        if isinstance(error, TaskTimeout):
            error = AppTimeout(str(error))
        note_failure(task, error)
        error, may_retry = self._budgets.charge(task, error)
        if isinstance(error, DependencyError):
            self._endings.fail(task, States.dep_fail, error)
        elif may_retry:
            text = "task %s, attempt %s failed, will be retried: %r"
            _log.info(text, task.id, task.try_id, error)
            self._move(task, States.fail_retryable)
            task.try_id += 1
            task.try_time_launched = task.try_time_returned = None
            task.fail_history = []
            self._launch_again(task)
        else:
            _log.info("task %s failed after %s retries: %r", task.id, task.try_id, error)
            self._endings.fail(task, States.failed, error)

    def _launch_again(self, task: TaskRecord) -> None:
        task.exec_fu = None
        self._move(task, States.pending)
        post(self._launch, task)

    def cancel(self, task: TaskRecord, running: bool, grace: float) -> bool:
        """Cancels a task that waits, and with ``running`` one that was launched if its executor can do that."""
        with self._lock:
            if task.status in FINAL_STATES:
                return task.status is States.cancelled
            attempt = task.exec_fu
            if attempt is None:
                task.exec_fu = _CLAIMED
        is_joining = task.status is States.joining
        if attempt is None or task.from_memo or (is_joining and running):
            # Itself first: it is not to fail because of what it had joined.
            post(self._endings.cancel, task)
            for future in joined_by(task):
                future.cancel()
            return True
        if attempt is _CLAIMED or is_joining:
            return False
        return _cancel_attempt(attempt, running, grace)


def _cancel_attempt(attempt: Future[Any], running: bool, grace: float) -> bool:
    if isinstance(attempt, NativeFuture):
        return attempt.cancel(running=running, grace=grace)
    try:
        return attempt.cancel()
    except NotImplementedError:
        return False
