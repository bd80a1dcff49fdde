"""Futures as arguments for executors that take none: a task is submitted once the tasks it depends on have ended."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from concurrent.futures import CancelledError, Future
from threading import Lock, local
from typing import Any


class AfterParents:
    """An executor whose tasks wait for the futures among their arguments.

    :param executor: an executor of ``concurrent.futures``, or one with the same interface except for its futures.
    :param future: the class of its futures.
    """

    def __init__(self, executor: Any, future: type[Any] = Future) -> None:
        #: The wrapped executor itself, for callers that pass no futures as arguments.
        self.executor = executor
        self._futures: tuple[type[Any], ...] = (Future, future)

    def submit(self, function: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:
        """Submits a call, at once or when the futures among its arguments have ended."""
        futures = self._futures
        parents: list[Any] = [one for one in (*args, *kwargs.values()) if isinstance(one, futures)]
        if not parents:
            return self.executor.submit(function, *args, **kwargs)
        waiting = _Waiting(self.executor, futures, (function, args, kwargs), len(parents))
        for parent in parents:
            parent.add_done_callback(waiting.note)
        return waiting.future

    def shutdown(self) -> None:
        """Ends the executor's processes and threads. Cancels tasks that have not begun: a failed run ends soon."""
        self.executor.shutdown(wait=True, cancel_futures=True)


class _Waiting:
    """A task that waits for other tasks."""

    def __init__(
        self,
        executor: Any,
        futures: tuple[type[Any], ...],
        call: tuple[Callable[..., Any], tuple[Any, ...], dict[str, Any]],
        missing: int,
    ) -> None:
        self.future: Future[Any] = Future()
        self._executor = executor
        self._futures = futures
        self._call = call
        self._missing = missing
        self._lock = Lock()

    def note(self, _parent: object) -> None:
        """Counts one ended dependency; submits the task after the last one."""
        with self._lock:
            self._missing -= 1
            if self._missing:
                return
        _ready.submit(self)

    def submit(self) -> None:
        """Submits the call with the results of its dependencies, unless it was cancelled."""
        if not self.future.set_running_or_notify_cancel():
            return
        function, args, kwargs = self._call
        try:
            args = tuple(map(self._value, args))
            kwargs = {name: self._value(one) for name, one in kwargs.items()}
            inner = self._executor.submit(function, *args, **kwargs)
        except BaseException as error:
            self.future.set_exception(error)
            return
        inner.add_done_callback(self._end)

    def _end(self, inner: Any) -> None:
        if inner.cancelled():
            self.future.set_exception(CancelledError())
        elif (error := inner.exception()) is not None:
            self.future.set_exception(error)
        else:
            self.future.set_result(inner.result())

    def _value(self, argument: Any) -> object:
        return argument.result() if isinstance(argument, self._futures) else argument


class _Ready(local):
    """The tasks that this thread may submit.

    It submits them one after the other: a task that fails at once ends its dependents, and a long chain of them would
    nest deeper than Python allows.
    """

    def __init__(self) -> None:
        self._tasks: deque[_Waiting] = deque()
        self._is_busy = False

    def submit(self, task: _Waiting) -> None:
        """Submits a task, or queues it for the ``submit`` call that is already running in this thread."""
        self._tasks.append(task)
        if self._is_busy:
            return
        self._is_busy = True
        try:
            while self._tasks:
                self._tasks.popleft().submit()
        finally:
            self._is_busy = False


_ready = _Ready()
