"""The life of tasks whose steps need Python: waiting, launching, retrying, joining, ending.

A task waits until all futures among its arguments are final. For each attempt, the graph asks the memoizer and then
submits the task to its executor. The task ends in exactly one final state, which its future shows. Any executor with
Parsl's interface is supported.

A step runs in the thread whose call or completion causes it, one step after the other (see ``calls``). A task's state
changes under the lock of the ``TaskStates``.
"""

from __future__ import annotations

import logging
import threading
import time
from concurrent.futures import CancelledError, Future
from concurrent.futures._base import FINISHED
from typing import TYPE_CHECKING, Any

from gristmill import _forked
from gristmill._errors import TaskTimeoutError
from gristmill._native import Future as NativeFuture
from gristmill.parsl._kernel.arguments import futures_in
from gristmill.parsl._kernel.budgets import Budgets
from gristmill.parsl._kernel.callbacks import Once
from gristmill.parsl._kernel.calls import post
from gristmill.parsl._kernel.endings import Endings, repr_of
from gristmill.parsl._kernel.executors.engine import GristmillExecutor
from gristmill.parsl._kernel.executors.threads import ThreadPoolExecutor
from gristmill.parsl._kernel.files import is_instance_of_loaded
from gristmill.parsl._kernel.joining import Joining, failures_of, joined_by
from gristmill.parsl._kernel.states import FINAL_STATES, States
from gristmill.parsl._kernel.task_states import TaskStates
from gristmill.parsl._kernel.walltime import unlimited

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from gristmill.parsl._kernel.monitoring.monitor import Monitor
    from gristmill.parsl._kernel.tasks import Task

_log = logging.getLogger("parsl.gristmill.kernel")

#: Placeholder for an attempt that is being made, or that will never be made.
_CLAIMED: Future[Any] = Future()


class Graph:
    """The component that runs the steps of each task in order.

    :param config: the kernel's configuration: retries and their handler.
    :param executors: by label.
    :param memoizer: asked before each attempt, and notified of each end.
    :param resolver: finds futures in arguments.
    :param describe: describes a future in a few words, for messages.
    """

    def __init__(
        self,
        config: Any,
        executors: dict[str, Any],
        memoizer: Any,
        resolver: Any,
        describe: Callable[[Future[Any]], str],
    ) -> None:
        self.task_states = TaskStates(config)
        self._config = config
        self._budgets = Budgets(config)
        self._executors = executors
        self._memoizer = memoizer
        self._resolver = resolver
        self._describe = describe
        self._endings = Endings(self.task_states, memoizer)
        self._guard = self._endings.guard
        self._joining = Joining(self.task_states, self._endings, describe)
        self._lock = self.task_states.lock
        self._move = self.task_states.move
        #: Serializes the calls to executors.
        self._submitting = threading.Lock()
        #: May replace the calls that executors get, and sees their results first.
        self.monitor: Monitor | None = None

    def add(self, task: Task) -> None:
        """Adds a task. It is launched once everything it waits for is final."""
        try:
            self.task_states.take_in(task)
            if task.depends:
                self._await(task, task.depends)
            else:
                post(self._guard, task, self._launch)
        except BaseException as error:
            # A signal handler has raised. The caller gets no future, so no thread may wait for the task.
            if self.task_states.knows(task):
                self._endings.fail(task, States.failed, error)
            raise

    def _await(self, task: Task, needs: Sequence[Future[Any]]) -> None:
        """Launches a task once the given futures are final."""
        unfinished = [future for future in needs if not future.done()]
        if not unfinished:
            post(self._guard, task, self._launch)
            return
        # One more than there are, so that the task cannot start before all futures are watched.
        task.unfinished = len(unfinished) + 1
        for future in unfinished:
            future.add_done_callback(Once(self._dependency_done, task))
        post(self._guard, task, self._arrive)

    def _dependency_done(self, task: Task, _future: Future[Any]) -> None:
        post(self._guard, task, self._arrive)

    def _arrive(self, task: Task) -> None:
        with self._lock:
            task.unfinished -= 1
            is_ready = task.unfinished == 0
        if is_ready:
            self._launch(task)

    def _launch(self, task: Task) -> None:
        with self._lock:
            if task.status is not States.pending or task.exec_fu is not None:
                return
            task.exec_fu = _CLAIMED
        try:
            if task.depends or task.try_id:
                self._unwrap(task)
            else:
                task.args = list(task.args)
            attempt = self._start(task)
        except Exception as error:
            self._attempt_unmade(task, error)
            return
        attempt.add_done_callback(Once(self._attempt_done, task))

    def _attempt_unmade(self, task: Task, error: Exception) -> None:
        """Handles the failure of an attempt that no executor received."""
        _without_own_frames(error)
        attempt: Future[Any] = Future()
        attempt.set_exception(error)
        task.exec_fu = attempt
        task.try_time_returned = time.time()
        self._attempt_failed(task, error)

    def _needs(self, task: Task) -> list[Future[Any]]:
        """Returns the futures that an attempt takes values from. Only a retry handler can add futures for a retry."""
        if task.try_id == 0:
            return list(task.depends)
        if self._config.retry_handler is None:
            return []
        return [*task.depends, *futures_in(task.args, task.kwargs, self._resolver)]

    def _unwrap(self, task: Task) -> None:
        """Replaces futures by their values. Raises ``DependencyError`` if some of them failed."""
        args, kwargs = task.args, task.kwargs
        needs = self._needs(task)
        task.args = list(args)
        if not needs:
            return
        from gristmill.parsl._kernel.errors import DependencyError

        failures = failures_of(needs, self._describe)
        if failures:
            raise DependencyError(failures, task.id)
        unwrap = self._resolver.traverse_to_unwrap
        try:
            # Unwrapping fetches results, and unpickling them may run code of the program.
            task.args = [_forked.guarded(unwrap, value) for value in args]
            for name, value in kwargs.items():
                kwargs[name] = (
                    [_forked.guarded(unwrap, part) for part in value]
                    if name == "inputs"
                    else _forked.guarded(unwrap, value)
                )
        except Exception as error:
            _without_own_frames(error)
            raise DependencyError([(error, "an argument")], task.id) from error

    def _start(self, task: Task) -> Future[Any]:
        """Begins an attempt. An exception of this method is the failure of the attempt."""
        task.try_time_launched = time.time()
        task.from_memo = False
        if self._endings.concerns_memoizer(task):
            known: Future[Any] | None = _forked.guarded(self._memoizer.check_memo, task.shared())
            if known is not None:
                task.from_memo = True
                if not isinstance(known, Future):
                    raise _no_future("check_memo of the memoizer", known)
                task.exec_fu = known
                return known
        executor = self._executor_of(task)
        function, specification = _call_for(task, executor)
        args, kwargs = task.args, task.kwargs
        if self.monitor is not None:
            function, args, kwargs = self.monitor.submission(task, executor, function)
        with self._submitting:
            attempt = _submitted(executor, function, specification, args, kwargs)
        if not isinstance(attempt, Future):
            raise _no_future(f"submit of executor {task.executor}", attempt)
        task.exec_fu = attempt
        self.task_states.count_attempt(attempt, "submitted")
        self._move(task, States.launched)
        return attempt

    def _executor_of(self, task: Task) -> Any:
        label = task.executor
        try:
            executor = self._executors[label]
        except (KeyError, TypeError):
            raise ValueError(
                f"Task {task.id} requested invalid executor {label}: there are "
                f"{', '.join(self._executors)}"
            ) from None
        if label != task.counted_label:
            self.task_states.count_for(task, label)
        return executor

    def _attempt_done(self, task: Task, attempt: Future[Any]) -> None:
        post(self._guard, task, self._attempt_ended, attempt)

    def _attempt_ended(self, task: Task, attempt: Future[Any]) -> None:
        task.try_time_returned = time.time()
        is_known = bool(task.from_memo)
        value = None
        try:
            # Not raised here: the traceback would refer to the task, and so to the attempt that holds the error.
            failure = _failure_of(attempt)
        except CancelledError:
            self._count_end(attempt, "cancelled", is_known)
            if is_known:
                # This task shared the result of another call, and that call was cancelled.
                self._launch_again(task)
            else:
                self._endings.cancel(task)
            return
        except BaseException as error:
            failure = _without_own_frames(error)
        # As the engine counts it: it does not know a value that stands for an exception, or that cannot be read here.
        self._count_end(attempt, "succeeded" if failure is None else "failed", is_known)
        if failure is None:
            try:
                value = self._value_of(task, attempt, _result_of(attempt), is_known)
            except BaseException as error:
                failure = _without_own_frames(error)
        if failure is not None:
            if self.monitor is not None and not is_known:
                self.monitor.raised(task, attempt, failure)
            self._attempt_failed(task, failure)
        elif is_known:
            self._endings.succeed(task, States.memo_done, value)
        elif task.join:
            self._joining.join(task, value)
        else:
            self._endings.succeed(task, States.exec_done, value)

    def _count_end(self, attempt: Future[Any], outcome: str, is_known: bool) -> None:
        """Counts the end of an attempt. A shared result of another call does not count."""
        if not is_known:
            self.task_states.count_attempt(attempt, outcome)

    def _value_of(self, task: Task, attempt: Future[Any], value: Any, is_known: bool) -> Any:
        if self.monitor is not None and not is_known:
            value = self.monitor.value_of(task, attempt, value)
        if type(value).__name__ == "RemoteExceptionWrapper":
            value.reraise()
        return value

    def _attempt_failed(self, task: Task, error: BaseException) -> None:
        from gristmill.parsl._kernel.errors import AppTimeout, DependencyError

        if issubclass(type(error), TaskTimeoutError):
            error = AppTimeout(str(error))
        task.note_failure(repr_of(error))
        error, may_retry = self._budgets.charge(task, error)
        if issubclass(type(error), DependencyError):
            self._endings.fail(task, States.dep_fail, error)
        elif may_retry:
            text = "task %s, attempt %s failed, will be retried: %s"
            _log.info(text, task.id, task.try_id, repr_of(error))
            self._move(task, States.fail_retryable)
            task.try_id += 1
            task.try_time_launched = task.try_time_returned = None
            task.fail_history = []
            self._launch_again(task)
        else:
            _log.info("task %s failed after %s retries: %s", task.id, task.try_id, repr_of(error))
            self._endings.fail(task, States.failed, error)

    def _launch_again(self, task: Task) -> None:
        task.exec_fu = None
        self._move(task, States.pending)
        self._await(task, self._needs(task))

    def cancel(self, task: Task, running: bool, grace: float) -> bool:
        """Cancels a waiting task, and with ``running`` also a launched one if its executor can cancel it."""
        with self._lock:
            if task.status in FINAL_STATES:
                return task.status is States.cancelled
            attempt = task.exec_fu
            if attempt is None:
                task.exec_fu = _CLAIMED
        is_joining = task.status is States.joining
        if attempt is None or task.from_memo or (is_joining and running):
            # This task ends first: it must not fail because of the cancelled futures that it had joined.
            post(self._endings.cancel, task)
            for future in joined_by(task):
                future.cancel()
            return True
        if attempt is _CLAIMED or is_joining:
            return False
        return _cancel_attempt(attempt, running, grace)


def _failure_of(attempt: Future[Any]) -> BaseException | None:
    """Returns the exception of an attempt, if any. Raises ``CancelledError``."""
    if type(attempt) is Future and attempt._state == FINISHED:
        # A thread's future: reading it runs no code of the program, and it does not change any more.
        return attempt._exception
    return _forked.guarded(attempt.exception)


def _result_of(attempt: Future[Any]) -> Any:
    """Returns the value of an attempt that has no exception."""
    if type(attempt) is Future:
        return attempt._result  # as above
    return _forked.guarded(attempt.result)


def _without_own_frames(error: BaseException) -> BaseException:
    """Removes the kernel's own frames from the top of an exception's traceback: they refer to a task, which holds it.

    Returns the exception.
    """
    own = (__file__, _forked.__file__)
    traceback = error.__traceback__
    while traceback is not None and traceback.tb_frame.f_code.co_filename in own:
        traceback = traceback.tb_next
    error.__traceback__ = traceback
    return error


def _cancel_attempt(attempt: Future[Any], running: bool, grace: float) -> bool:
    if isinstance(attempt, NativeFuture):
        return attempt.cancel(running=running, grace=grace)
    try:
        return _forked.guarded(attempt.cancel)
    except NotImplementedError:
        return False


def _call_for(task: Task, executor: Any) -> tuple[Callable[..., Any], dict[str, Any]]:
    """Returns the function that the executor of this attempt calls, and the resource specification."""
    function, specification = task.func, task.resource_specification
    limit = unlimited(function)
    if limit is None or not isinstance(executor, GristmillExecutor):
        return function, specification
    # The engine's workers can end a task inside compiled code, which an exception in a thread cannot.
    function, seconds = limit
    return function, {**specification, "walltime": seconds}


def _submitted(
    executor: Any,
    function: Callable[..., Any],
    specification: dict[str, Any],
    args: Sequence[Any],
    kwargs: dict[str, Any],
) -> Future[Any]:
    """Submits a call to an executor.

    If code of the program forks meanwhile, in the executor or while it pickles arguments, the child process does not go
    on in the kernel.
    """
    attempt: Future[Any]
    if type(executor) is ThreadPoolExecutor:
        # Its ``submit`` runs no code of the program, and guards the function itself.
        attempt = executor.submit(function, specification, *args, **kwargs)
        return attempt
    if is_instance_of_loaded(type(executor), "parsl.executors.threads", "ThreadPoolExecutor"):
        # The only executor of Parsl whose tasks run in this process.
        function, args, kwargs = _forked.guarded_with, (function, args, kwargs), {}
    attempt = _forked.guarded_with(executor.submit, (function, specification, *args), kwargs)
    return attempt


def _no_future(source: str, given: object) -> TypeError:
    return TypeError(f"{source} returned no Future, but {given!r}")
