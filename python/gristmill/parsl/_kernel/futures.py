"""The futures of apps and of the files they write."""

from __future__ import annotations

import os
import threading
import weakref
from concurrent.futures import CancelledError, Future
from concurrent.futures._base import CANCELLED, CANCELLED_AND_NOTIFIED, FINISHED, PENDING
from typing import TYPE_CHECKING, Any, TypeVar

from gristmill import _options
from gristmill.parsl._kernel.callbacks import Once, call_all
from gristmill.parsl._kernel.dependencies import FUTURELESS_TYPES
from gristmill.parsl._kernel.states import States

if TYPE_CHECKING:
    from collections.abc import Sequence

    from gristmill.parsl._kernel.files import File
    from gristmill.parsl._kernel.tasks import Task, TaskRecord


_F = TypeVar("_F")

#: Guards the creation of conditions, and the end of futures without a condition. It is reentrant: a signal handler or a
#: destructor may use other futures while its thread holds the lock.
_making = threading.RLock()
_DONE = (CANCELLED, CANCELLED_AND_NOTIFIED, FINISHED)


def _renew_making() -> None:
    """Replaces the lock in a forked process, where the thread that may hold it does not exist."""
    global _making
    _making = threading.RLock()


os.register_at_fork(after_in_child=_renew_making)


def named_as_parsls(kind: type[_F]) -> type[_F]:
    """Gives a class the name of the futures in Parsl, because programs print and log it."""
    kind.__name__ = kind.__qualname__ = "AppFuture"
    return kind


class AppFuture(Future[Any]):
    """The result of calling an app: a ``concurrent.futures.Future`` that knows its task.

    ``future[key]`` and ``future.name`` are futures of apps too: of the item and the attribute of the later value.
    Derived classes serve tasks that the native engine runs alone, tasks whose steps the kernel runs, and remembered
    results. They behave alike, and all of them are named ``AppFuture``, because programs print the name.

    :param task_record: the task.
    """

    __slots__ = ()

    #: Prevents iteration. Python would otherwise ask for items forever: each is a future, and there is always a next
    #: one.
    __iter__ = None

    if TYPE_CHECKING:
        task_record: TaskRecord
    _outputs: Sequence[DataFuture] = ()
    _stdout_future: DataFuture | None = None
    _stderr_future: DataFuture | None = None

    def __init__(self, task_record: TaskRecord) -> None:
        super().__init__()
        self.task_record = task_record

    @property
    def tid(self) -> int:
        """The task's number in its kernel, from 0."""
        number: int = self.task_record["id"]
        return number

    @property
    def _kernel(self) -> Any:
        """The kernel of the task."""
        return self.task_record.dfk

    @property
    def outputs(self) -> Sequence[DataFuture]:
        """A future for each file of the call's ``outputs``."""
        return self._outputs or []

    @property
    def stdout(self) -> Any:
        """The destination of standard output: the argument of the call, or the future of the file in it."""
        return self._stdout_future or self.task_record["kwargs"].get("stdout")

    @property
    def stderr(self) -> Any:
        """The destination of standard error: the argument of the call, or the future of the file in it."""
        return self._stderr_future or self.task_record["kwargs"].get("stderr")

    def task_status(self) -> str:
        """Returns the name of the task's state, one of ``States``."""
        state: States = self.task_record["status"]
        return state.name

    def __getitem__(self, key: Any) -> Any:
        from gristmill.parsl._kernel.future_accessors import item_of

        return item_of(self, key)

    def __getattr__(self, name: str) -> Any:
        # Python itself looks up names with an underscore to find out which protocols this object supports.
        if name.startswith("_"):
            raise AttributeError(name)
        from gristmill.parsl._kernel.future_accessors import attribute_of

        return attribute_of(self, name)


@named_as_parsls
class LightFuture(AppFuture):
    """An app's future without a condition and lists, the costly parts of a future, until a thread waits for it."""

    _made_condition: threading.Condition | None = None

    # Defaults of the class. The base class would set lists and more on each instance.
    _state = PENDING
    _result = _exception = None

    def __init__(self) -> None:
        """Replaces the constructor of the base class, which would make the condition and the lists."""

    @property
    def _condition(self) -> threading.Condition:  # type: ignore[override]
        condition = self._made_condition
        if condition is None:
            _show(self)
            made, waiters, callbacks = threading.Condition(), list[Any](), list[Any]()
            with _making:
                # No call between these lines: in a call, a signal handler could make another condition for this future.
                condition = self._made_condition
                if condition is None:
                    # No code reads these two without the condition.
                    self._waiters, self._done_callbacks = waiters, callbacks
                    condition = self._made_condition = made
        return condition

    def done(self) -> bool:
        """Returns whether the task is final."""
        return self._state in _DONE

    def result(self, timeout: float | None = None) -> Any:
        """Returns the task's value.

        Raises the task's exception, or ``TimeoutError`` after ``timeout`` seconds.
        """
        if self._state == FINISHED and self._exception is None:
            return self._result
        self._refuse_forked()
        try:
            return super().result(_patience(timeout))
        finally:
            # As in the standard library: the traceback of the exception must not refer back to the future.
            del self

    def exception(self, timeout: float | None = None) -> BaseException | None:
        """Returns the task's exception, if any. Raises ``TimeoutError`` after ``timeout`` seconds."""
        self._refuse_forked()
        return super().exception(_patience(timeout))

    def _refuse_forked(self) -> None:
        """Raises ``ForkedProcessError`` in a fork of the kernel's process, where no thread makes the future final."""
        if self._state not in _DONE:
            self._kernel.refuse_forked()

    def set_result(self, result: Any) -> None:
        """Makes the future final. Only the kernel calls this."""
        with _making:
            # Without a condition, no thread waits and there is no callback: both create the condition.
            is_alone = self._made_condition is None and self._state == PENDING
            if is_alone:
                self._result = result
                self._state = FINISHED
        if not is_alone:
            super().set_result(result)

    def _invoke_callbacks(self) -> None:
        callbacks, self._done_callbacks = self._done_callbacks, []
        call_all(self, callbacks)

    def set_cancelled(self) -> None:
        """Makes the future final without a value. Only the kernel calls this.

        It bypasses ``cancel``, which asks the kernel to cancel the task.
        """
        Future.cancel(self)
        self.set_running_or_notify_cancel()


def _patience(timeout: float | None) -> float | None:
    """Returns the seconds to wait, at most three centuries, which is the limit of locks."""
    seconds = _options.patience(timeout)
    return None if seconds is None else min(seconds, threading.TIMEOUT_MAX)


def _show(future: LightFuture) -> None:
    """Makes the garbage collector track a future, which may refer back to itself from now on."""
    # Imported late: this module also loads without the engine, which is needed only where futures are made.
    from gristmill._native import show_to_collector

    show_to_collector(future)


def set_results(ends: Sequence[tuple[LightFuture, Any]]) -> None:
    """Makes many futures final with a value each. No other code may complete these futures."""
    waited_for = []
    with _making:
        for future, value in ends:
            if future._made_condition is None:
                if type(value) not in FUTURELESS_TYPES:
                    _show(future)
                future._result, future._state = value, FINISHED
            else:
                waited_for.append((future, value))
    for future, value in waited_for:
        future.set_result(value)


@named_as_parsls
class GraphFuture(LightFuture):
    """The future of a task whose steps the kernel runs itself."""

    def __init__(self, task: Task) -> None:
        super().__init__()
        self._task = task

    @property
    def task_record(self) -> TaskRecord:  # type: ignore[override]
        """The record of the task."""
        return self._task.shared()

    @property
    def tid(self) -> int:
        """The task's number in its kernel, from 0."""
        return self._task.id

    @property
    def _kernel(self) -> Any:
        return self._task.dfk

    def task_status(self) -> str:
        """Returns the name of the task's state, one of ``States``."""
        return self._task.status.name

    def cancel(self, running: bool = True, grace: float = 1.0) -> bool:
        """Cancels the task: always while it waits, and while it runs if its executor can, as Gristmill's can.

        :param running: whether a task that has started is interrupted.
        :param grace: seconds that an interrupted task has to end. After that its worker is killed.
        """
        return bool(self._kernel.cancel_task(self._task, running, grace))

    def running(self) -> bool:
        """Returns whether an attempt was submitted to the executor, or a join app waits for its futures."""
        return self._task.status in (States.launched, States.joining)


class DataFuture(Future[Any]):
    """The future of a file that a task will write. Its value is the ``File``.

    :param fut: the future after which the file exists.
    :param file_obj: the file.
    :param tid: the number of the task that writes it.
    """

    #: True if the task was cancelled. Set once the future is final.
    _is_cancelled = False
    _done_callbacks: list[Any]

    def __init__(self, fut: Future[Any], file_obj: File, tid: int) -> None:
        super().__init__()
        self._tid = tid
        self.file_obj = file_obj
        self._parent: Future[Any] | weakref.ref[Future[Any]] = fut
        fut.add_done_callback(Once(self.parent_callback))

    @property
    def parent(self) -> Any:
        """The future after which the file exists. Once it is final, ``None`` if nothing else refers to it."""
        parent = self._parent
        return parent() if isinstance(parent, weakref.ref) else parent

    def parent_callback(self, parent_fu: Future[Any]) -> None:
        """Makes this future final with the outcome of the task's own future."""
        try:
            failure = parent_fu.exception()
        except CancelledError as cancelled:
            # The traceback refers to this future.
            failure = cancelled.with_traceback(None)
        self._is_cancelled = issubclass(type(failure), CancelledError)
        # A weak reference: the future of a task refers to the futures of its files.
        self._parent = weakref.ref(parent_fu)
        if failure is not None:
            self.set_exception(failure)
        else:
            self.set_result(self.file_obj)

    def _invoke_callbacks(self) -> None:
        callbacks, self._done_callbacks = self._done_callbacks, []
        call_all(self, callbacks)

    @property
    def tid(self) -> int:
        """The number of the task that writes the file."""
        return self._tid

    @property
    def filepath(self) -> str:
        """The path of the file, for the program that submits."""
        return self.file_obj.filepath

    @property
    def filename(self) -> str:
        """The same as ``filepath``."""
        return self.filepath

    def cancel(self) -> bool:
        """Cancels the task that writes the file."""
        parent = self.parent
        return bool(parent.cancel()) if parent is not None else self._is_cancelled

    def cancelled(self) -> bool:
        """Returns whether the task that writes the file was cancelled."""
        parent = self.parent
        return bool(parent.cancelled()) if parent is not None else self._is_cancelled

    def running(self) -> bool:
        """Returns whether the task that writes the file runs."""
        parent = self.parent
        return parent is not None and bool(parent.running())

    def __repr__(self) -> str:
        done = "done" if self.done() else "not done"
        name = f"{type(self).__module__}.{type(self).__qualname__}"
        return f"<{name} object at {id(self):#x} representing {self.file_obj!r} {done}>"
