"""The life of tasks whose steps need Python: waiting, launching, retrying, joining, ending.

A task waits until all futures among its arguments are final, is given to the memoizer and then to its executor, once
for each attempt, and ends in exactly one final state, which its future shows. Every executor with Parsl's interface
will do.

Steps run in the thread whose call or completion causes them, one after the other (see ``calls``); a task's state
changes under one lock, which is never held while foreign code runs.
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
from gristmill.parsl.back_pressure import BackPressure
from gristmill.parsl.calls import post
from gristmill.parsl.losses import is_loss
from gristmill.parsl.memoizer import is_passive
from gristmill.parsl.states import FINAL_STATES, States

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from gristmill.parsl.monitoring.monitor import Monitor
    from gristmill.parsl.tasks import TaskRecord

_log = logging.getLogger("parsl.gristmill.kernel")


class Graph:
    """All tasks of one kernel that are not final, and how many are in which state.

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
        self._config = config
        self._executors = executors
        self._memoizer = memoizer
        self._tells_memoizer_all = not is_passive(memoizer)
        self._resolver = resolver
        self._describe = describe
        self._loss_retries = getattr(config, "loss_retries", None)
        self._lock = threading.Lock()
        #: Executors get one call at a time.
        self._submitting = threading.Lock()
        self.tasks: dict[int, TaskRecord] = {}
        self.counts = dict.fromkeys(States, 0)
        #: How many tasks are not final, in all and of each executor.
        self.open_count = 0
        self.outstanding: dict[str, int] = {}
        self.back_pressure = BackPressure(
            getattr(config, "task_limit", None), lambda: self.open_count, self._lock
        )
        #: What became of the attempts on Gristmill's engine, whose own numbers have them too.
        self.engine_attempts = dict.fromkeys(("submitted", "succeeded", "failed", "cancelled"), 0)
        #: Told of each change of a state.
        self.observers: list[Callable[[TaskRecord], None]] = []
        #: Has a say in what is given to executors, and first sight of what they give back.
        self.monitor: Monitor | None = None

    def add(self, task: TaskRecord) -> None:
        """Takes a task in; it is launched once everything it waits for is final."""
        if not task.depends:
            self._take_in(task)
            post(self._launch, task)
            return
        unfinished = [future for future in task.depends if not future.done()]
        # One more than there are, so that nothing starts before all are watched.
        task.unfinished = len(unfinished) + 1
        self._take_in(task)
        for future in unfinished:
            future.add_done_callback(partial(self._dependency_done, task))
        post(self._arrive, task)

    def _take_in(self, task: TaskRecord) -> None:
        with self._lock:
            self.counts[States.pending] += 1
            self.tasks[task.id] = task
            self.open_count += 1
            self.outstanding[task.executor] = self.outstanding.get(task.executor, 0) + 1
        self._tell(task)

    def count_recalled(self) -> None:
        """A task was answered without ever being here."""
        with self._lock:
            self.counts[States.memo_done] += 1

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

            self._fail(task, States.dep_fail, DependencyError(failures, task.id))
            return
        try:
            attempt = self._start(task)
        except Exception as error:
            self._attempt_failed(task, error)
            return
        except BaseException as interrupt:
            self._fail(task, States.failed, interrupt)
            raise
        task.exec_fu = attempt
        attempt.add_done_callback(partial(self._attempt_done, task))

    def _unwrap(self, task: TaskRecord) -> Sequence[tuple[BaseException, str]]:
        """Puts values in the place of futures; gives the failures among these instead if there are some."""
        failures = [
            (failure, self._describe(future))
            for future in task.depends
            if (failure := _failure_of(future)) is not None
        ]
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
        if task.memoize or self._tells_memoizer_all:
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
        self._count_attempt(attempt, "submitted")
        self._move(task, States.launched)
        return attempt

    def _count_attempt(self, attempt: Future[Any], outcome: str) -> None:
        if isinstance(attempt, NativeFuture):
            with self._lock:
                self.engine_attempts[outcome] += 1

    def _attempt_done(self, task: TaskRecord, attempt: Future[Any]) -> None:
        post(self._attempt_ended, task, attempt)

    def _attempt_ended(self, task: TaskRecord, attempt: Future[Any]) -> None:
        task.try_time_returned = time.time()
        try:
            value = self._result_of(task, attempt)
            if type(value).__name__ == "RemoteExceptionWrapper":
                value.reraise()
        except CancelledError:
            self._count_attempt(attempt, "cancelled")
            if task.from_memo:
                # Somebody cancelled the call that this one shared.
                self._move(task, States.pending)
                task.exec_fu = None
                post(self._launch, task)
            else:
                self._end_cancelled(task)
        except BaseException as error:
            self._count_attempt(attempt, "failed")
            self._attempt_failed(task, error)
        else:
            self._count_attempt(attempt, "succeeded")
            if task.from_memo:
                self._succeed(task, States.memo_done, value)
            elif task.join:
                self._join(task, value)
            else:
                self._succeed(task, States.exec_done, value)

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
        task["fail_history"].append(repr(error))
        task.fail_count += 1
        error, may_retry = self._charge(task, error)
        if isinstance(error, DependencyError):
            self._fail(task, States.dep_fail, error)
        elif may_retry:
            _log.info(
                "task %s, attempt %s failed, will be retried: %r", task.id, task.try_id, error
            )
            self._move(task, States.fail_retryable)
            task.try_id += 1
            task.try_time_launched = task.try_time_returned = task.exec_fu = None
            task.fail_history = []
            self._move(task, States.pending)
            post(self._launch, task)
        else:
            _log.info("task %s failed after %s retries: %r", task.id, task.try_id, error)
            self._fail(task, States.failed, error)

    def _charge(self, task: TaskRecord, error: BaseException) -> tuple[BaseException, bool]:
        """Takes the failure from its budget; gives what to report, and whether another attempt is due."""
        retries = self._config.retries
        if self._config.retry_handler is not None:
            try:
                task.fail_cost += self._config.retry_handler(error, task)
            except Exception as raised:
                task.fail_cost = retries + 1
                return raised, False
            return error, task.fail_cost <= retries
        if is_loss(error):
            # A lost worker is not the task's fault: it has a budget of its own.
            task.loss_count += 1
            budget = retries if self._loss_retries is None else self._loss_retries
            return error, task.loss_count <= budget
        task.fail_cost += 1
        return error, task.fail_cost <= retries

    def _join(self, task: TaskRecord, joined: Any) -> None:
        futures = joined if isinstance(joined, list) else [joined]
        if not all(isinstance(future, Future) for future in futures):
            what = f"{joined} of type {type(joined)}"
            error = TypeError(f"join_app body must return a Future or list of Futures, got {what}")
            self._fail(task, States.failed, error)
            return
        task.joins = joined
        task.unfinished = len(futures) + 1
        self._move(task, States.joining)
        for future in futures:
            future.add_done_callback(partial(self._part_done, task))
        self._part_arrived(task)

    def _part_done(self, task: TaskRecord, _future: Future[Any]) -> None:
        post(self._part_arrived, task)

    def _part_arrived(self, task: TaskRecord) -> None:
        with self._lock:
            task.unfinished -= 1
            if task.unfinished or task.status is not States.joining:
                return
        futures = _joined_by(task)
        failures = [
            (failure, self._describe(future))
            for future in futures
            if (failure := _failure_of(future)) is not None
        ]
        if failures:
            from gristmill.parsl.errors import JoinError

            error = JoinError(failures, task.id)
            task["fail_history"].append(repr(error))
            task.fail_count += 1
            self._fail(task, States.failed, error)
        else:
            values = [future.result() for future in futures]
            value = values if isinstance(task.joins, list) else values[0]
            self._succeed(task, States.exec_done, value)

    def _succeed(self, task: TaskRecord, state: States, value: Any) -> None:
        task.time_returned = time.time()
        try:
            if task.memoize or self._tells_memoizer_all:
                self._memoizer.update_memo_result(task, value)
        except Exception as error:
            _log.exception("the result of task %s could not be memoized", task.id)
            self._fail(task, States.failed, error)
            return
        if self._end(task, state):
            task.app_fu.set_result(value)

    def _fail(self, task: TaskRecord, state: States, error: BaseException) -> None:
        task.time_returned = time.time()
        self._memoize_failure(task, error)
        if self._end(task, state):
            task.app_fu.set_exception(error)

    def _end_cancelled(self, task: TaskRecord) -> None:
        task.time_returned = time.time()
        if not task.from_memo:
            self._memoize_failure(task, CancelledError())
        if self._end(task, States.cancelled):
            # Past the task's own cancel(), which is what brought us here.
            Future.cancel(task.app_fu)
            task.app_fu.set_running_or_notify_cancel()

    def _memoize_failure(self, task: TaskRecord, error: BaseException) -> None:
        try:
            if task.memoize or self._tells_memoizer_all:
                self._memoizer.update_memo_exception(task, error)
        except Exception:
            _log.exception("the failure of task %s could not be memoized", task.id)

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
            post(self._end_cancelled, task)
            for future in _joined_by(task):
                future.cancel()
            return True
        if attempt is _CLAIMED or is_joining:
            return False
        return _cancel_attempt(attempt, running, grace)

    def _end(self, task: TaskRecord, state: States) -> bool:
        """Makes ``state`` the final one; whether none was before."""
        if not self._move(task, state):
            return False
        if self._config.garbage_collect:
            self.tasks.pop(task.id, None)
        return True

    def _move(self, task: TaskRecord, state: States) -> bool:
        with self._lock:
            if task.status in FINAL_STATES:
                return False
            self.counts[task.status] -= 1
            self.counts[state] += 1
            task.status = state
            if state in FINAL_STATES:
                self.open_count -= 1
                self.outstanding[task.executor] -= 1
                self.back_pressure.made_room()
        self._tell(task)
        return True

    def _tell(self, task: TaskRecord) -> None:
        for observer in self.observers:
            observer(task)


#: Stands for an attempt that is just being made, or that never will be.
_CLAIMED: Future[Any] = Future()


def _joined_by(task: TaskRecord) -> Sequence[Future[Any]]:
    if task.joins is None:
        return ()
    return task.joins if isinstance(task.joins, list) else [task.joins]


def _failure_of(future: Future[Any]) -> BaseException | None:
    try:
        return future.exception()
    except CancelledError as cancelled:
        return cancelled


def _cancel_attempt(attempt: Future[Any], running: bool, grace: float) -> bool:
    if isinstance(attempt, NativeFuture):
        return attempt.cancel(running=running, grace=grace)
    try:
        return attempt.cancel()
    except NotImplementedError:
        return False
