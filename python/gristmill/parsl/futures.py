"""The futures of apps and of the files they write."""

from __future__ import annotations

import threading
from concurrent.futures import CancelledError, Future
from concurrent.futures._base import CANCELLED, CANCELLED_AND_NOTIFIED, FINISHED, PENDING
from typing import TYPE_CHECKING, Any

from gristmill.parsl.dependencies import FUTURELESS_TYPES
from gristmill.parsl.states import States

if TYPE_CHECKING:
    from collections.abc import Sequence

    from gristmill.parsl.files import File
    from gristmill.parsl.tasks import TaskRecord


#: Guards the making of conditions, and the end of futures that have none.
_making = threading.Lock()
_DONE = (CANCELLED, CANCELLED_AND_NOTIFIED, FINISHED)


class AppFuture:
    """What calling an app gives: a ``concurrent.futures.Future`` that knows its task.

    ``future[key]`` and ``future.name`` are apps' futures too: of the item and the attribute that the value will have.
    There are two kinds, with the same behaviour: of tasks that the native engine runs all by itself, and of all others.
    """

    __slots__ = ()

    #: Else Python would iterate by asking for items for ever: each is a future, and there is always a next one.
    __iter__ = None

    task_record: TaskRecord
    _outputs: Sequence[DataFuture] = ()
    _stdout_future: DataFuture | None = None
    _stderr_future: DataFuture | None = None

    @property
    def tid(self) -> int:
        """The task's number in its kernel, from 0."""
        return self.task_record.id

    @property
    def outputs(self) -> Sequence[DataFuture]:
        """A future for each file of the call's ``outputs``."""
        return self._outputs

    @property
    def stdout(self) -> Any:
        """Where standard output goes: what the call said, or the future of the file it said."""
        return self._stdout_future or self.task_record.kwargs.get("stdout")

    @property
    def stderr(self) -> Any:
        """Where standard error goes: what the call said, or the future of the file it said."""
        return self._stderr_future or self.task_record.kwargs.get("stderr")

    def task_status(self) -> str:
        """The name of the task's state, one of ``States``."""
        return self.task_record.status.name

    def __getitem__(self, key: Any) -> Any:
        from gristmill.parsl.lifted import item_of

        return item_of(self, key)

    def __getattr__(self, name: str) -> Any:
        # Names with an underscore are Python's own protocols asking what this can do.
        if name.startswith("_"):
            raise AttributeError(name)
        from gristmill.parsl.lifted import attribute_of

        return attribute_of(self, name)


class LightFuture(AppFuture, Future[Any]):
    """An app's future that has no condition and no lists, most of what one costs, until somebody waits."""

    _made_condition: threading.Condition | None = None

    # Where the base has a list and more for each, there is nothing until somebody waits.
    _state = PENDING
    _result = _exception = None

    def __init__(self) -> None:
        """Takes the place of the base's, which makes all of it."""

    @property
    def _condition(self) -> threading.Condition:  # type: ignore[override]
        condition = self._made_condition
        if condition is None:
            with _making:
                condition = self._made_condition
                if condition is None:
                    _show(self)
                    # Nobody looks at these without the condition.
                    self._waiters: list[Any] = []
                    self._done_callbacks: list[Any] = []
                    condition = self._made_condition = threading.Condition()
        return condition

    def done(self) -> bool:
        """Whether the task is final."""
        return self._state in _DONE

    def result(self, timeout: float | None = None) -> Any:
        """The task's value; raises its exception, or ``TimeoutError`` after so many seconds."""
        if self._state == FINISHED and self._exception is None:
            return self._result
        return super().result(timeout)

    def set_result(self, result: Any) -> None:
        """For the kernel: makes the future final."""
        with _making:
            # Nobody waits, and nobody has a callback: both would have made the condition.
            is_alone = self._made_condition is None and self._state == PENDING
            if is_alone:
                self._result = result
                self._state = FINISHED
        if not is_alone:
            super().set_result(result)

    def set_cancelled(self) -> None:
        """For the kernel: makes the future final without a value. Past ``cancel``, which asks for that."""
        Future.cancel(self)
        self.set_running_or_notify_cancel()


def _show(future: LightFuture) -> None:
    """Lets the collector see a future that may lead back to itself from now on."""
    # Futures are made where there is an engine only; their types are there everywhere.
    from gristmill._native import show_to_collector

    show_to_collector(future)


def set_results(ends: Sequence[tuple[LightFuture, Any]]) -> None:
    """Makes many futures final that nobody else does, with a value each."""
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


class GraphFuture(LightFuture):
    """The future of a task whose steps the kernel takes itself."""

    def __init__(self, task: TaskRecord) -> None:
        super().__init__()
        self.task_record = task

    def cancel(self, running: bool = True, grace: float = 1.0) -> bool:
        """Cancels the task, if its executor can: one that waits always, one that runs on Gristmill's workers too.

        :param running: whether a task that has started is to be interrupted.
        :param grace: seconds that an interrupted task has to end; then its worker is killed.
        """
        kernel = self.task_record.dfk
        return bool(kernel.cancel_task(self.task_record, running, grace))

    def running(self) -> bool:
        """Whether an attempt was given to the executor, or what a join app waits for."""
        return self.task_record.status in (States.launched, States.joining)


class DataFuture(Future[Any]):
    """A file that a task will have written; its value is the ``File``.

    :param fut: the future after which the file is there.
    :param file_obj: the file.
    :param tid: the number of the task that writes it.
    """

    def __init__(self, fut: Future[Any], file_obj: File, tid: int) -> None:
        super().__init__()
        self._tid = tid
        self.file_obj = file_obj
        self.parent = fut
        fut.add_done_callback(self.parent_callback)

    def parent_callback(self, parent_fu: Future[Any]) -> None:
        """Makes this final as the task's own future is."""
        try:
            failure = parent_fu.exception()
        except CancelledError as cancelled:
            failure = cancelled
        if failure is not None:
            self.set_exception(failure)
        else:
            self.set_result(self.file_obj)

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
        return self.parent.cancel()

    def cancelled(self) -> bool:
        """Whether the task that writes the file was cancelled."""
        return self.parent.cancelled()

    def running(self) -> bool:
        """Whether the task that writes the file runs."""
        return self.parent.running()

    def __repr__(self) -> str:
        done = "done" if self.done() else "not done"
        name = f"{type(self).__module__}.{type(self).__qualname__}"
        return f"<{name} object at {id(self):#x} representing {self.file_obj!r} {done}>"
