"""Futures as arguments, for executors that take none: a task is submitted once those that it needs have ended."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from concurrent.futures import CancelledError, Future
from threading import Lock, local
from typing import Any


class AfterParents:
    """An executor whose tasks wait for the futures among their arguments.

    :param executor: of ``concurrent.futures``, or like one but for its futures.
    :param future: their class.
    """

    def __init__(self, executor: Any, future: type[Any] = Future) -> None:
        #: The executor itself, for whom has no futures among arguments.
        self.executor = executor
        self._futures: tuple[type[Any], ...] = (Future, future)

    def submit(self, function: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:
        """Submits a call, now or once the futures among its arguments have ended."""
        futures = self._futures
        parents: list[Any] = [one for one in (*args, *kwargs.values()) if isinstance(one, futures)]
        if not parents:
            return self.executor.submit(function, *args, **kwargs)
        waiting = _Waiting(self.executor, futures, (function, args, kwargs), len(parents))
        for parent in parents:
            parent.add_done_callback(waiting.note)
        return waiting.future

    def shutdown(self) -> None:
        """Ends every process and thread of it. What has not begun is cancelled: a run that has failed ends soon."""
        self.executor.shutdown(wait=True, cancel_futures=True)


class _Waiting:
    """A task that waits for others."""

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
        """One of those that it needs has ended."""
        with self._lock:
            self._missing -= 1
            if self._missing:
                return
        _ready.submit(self)

    def submit(self) -> None:
        """Submits its call, with what the others have returned, unless it was cancelled."""
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
    """The tasks of this thread that may be submitted.

    They are submitted one after the other: one that fails at once ends those that need it, and a long chain of these
    would nest deeper than Python allows.
    """

    def __init__(self) -> None:
        self._tasks: deque[_Waiting] = deque()
        self._is_busy = False

    def submit(self, task: _Waiting) -> None:
        """Submits it, or has whoever submits others in this thread do it next."""
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
