"""A manager of TaskVine in a thread, for a program that waits for futures, and the function that its workers run.

A manager belongs to one thread and makes progress only while that thread waits for it, for whole seconds or until a
task has ended. No other Python thread runs meanwhile, because the manager keeps the interpreter lock. So the thread
gives the program a moment to submit further tasks before it waits for the manager, unless workers have enough to do.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import CancelledError, Future
from contextlib import AbstractContextManager, suppress
from os import urandom
from queue import Empty, SimpleQueue
from threading import Thread
from typing import Any

#: Shortest time in seconds that a manager waits.
_TURN_S = 1
#: Seconds that the program may take to submit further tasks when a task has ended.
_MOMENT_S = 0.0005
#: Tasks of each worker that are enough to do.
_ENOUGH = 2

#: Function whose context starts a manager with its workers, and ends them.
Start = Callable[[], AbstractContextManager[Any]]
#: Function that does something with a manager.
Action = Callable[[Any], Any]
#: Function that makes a task of TaskVine.
Make = Callable[[], Any]
#: Function that does a requested action with a manager and completes its future.
_Do = Callable[[Any, Future[Any]], None]


class Manager:
    """A thread with a manager.

    :param start: is called in the thread; the constructor raises its exceptions.
    """

    def __init__(self, start: Start, workers: int) -> None:
        #: Requested actions with their futures; ``None`` ends the thread.
        self._asked: SimpleQueue[tuple[Future[Any], _Do] | None] = SimpleQueue()
        self._enough = _ENOUGH * workers
        self._is_over = False
        self._is_cancelled = False
        #: Futures of submitted tasks, by the numbers of the tasks.
        self._open: dict[int, Future[Any]] = {}
        ready: Future[None] = Future()
        self._thread = Thread(target=self._serve, args=(start, ready))
        self._thread.start()
        ready.result()

    def run(self, action: Action) -> Future[Any]:
        """Has the thread do something; the future has the result."""
        return self._ask(lambda manager, future: future.set_result(action(manager)))

    def submit(self, make: Make) -> Future[Any]:
        """Has the thread make and submit a task; the future has the result of the task."""

        def submit(manager: Any, future: Future[Any]) -> None:
            task = make()
            manager.submit(task)
            self._open[task.id] = future

        return self._ask(submit)

    def shutdown(self, *, cancel: bool = False) -> None:
        """Ends the thread when all tasks have ended, or cancels those that have not."""
        self._is_cancelled = cancel
        self._asked.put(None)
        self._thread.join()

    def _ask(self, do: _Do) -> Future[Any]:
        future: Future[Any] = Future()
        # A request cannot be cancelled.
        future.set_running_or_notify_cancel()
        self._asked.put((future, do))
        return future

    def _serve(self, start: Start, ready: Future[None]) -> None:
        try:
            with start() as manager:
                ready.set_result(None)
                while self._do_all(manager) or (self._open and not self._is_cancelled):
                    task = manager.wait(_TURN_S)
                    if task is not None:
                        _complete(self._open.pop(task.id), task)
            self._fail(CancelledError())
        except BaseException as error:
            if ready.done():
                self._fail(error)
            else:
                ready.set_exception(error)

    def _do_all(self, manager: Any) -> bool:
        """Does what was requested; waits for a request if no task is open.

        Returns whether more requests may come.
        """
        while not self._is_over and (asked := self._next_asked()) is not Empty:
            if asked is None:
                self._is_over = True
                break
            future, do = asked
            try:
                do(manager, future)
            except Exception as error:
                future.set_exception(error)
        return not self._is_over

    def _next_asked(self) -> Any:
        """Returns the next request, ``None`` for the end, or ``Empty`` if there is none."""
        if not self._open:
            return self._asked.get()
        with suppress(Empty):
            if len(self._open) < self._enough:
                return self._asked.get(timeout=_MOMENT_S)
            return self._asked.get_nowait()
        return Empty

    def _fail(self, error: BaseException) -> None:
        """Fails all open tasks and all requests with an error."""
        for future in self._open.values():
            future.set_exception(error)
        while not self._is_over:
            asked = self._asked.get()
            if asked is None:
                break
            asked[0].set_exception(error)


class _Boxed:
    """Result of a call, which distinguishes a returned exception from a raised one."""

    def __init__(self, value: Any, error: Exception | None) -> None:
        self.value = value
        self.error = error


def call(function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> _Boxed:
    """Calls a function in a worker; returns its result or exception."""
    try:
        return _Boxed(function(*args, **kwargs), None)
    except Exception as error:
        return _Boxed(None, error)


#: Values that this process keeps, by key; it is the library of a worker, or was forked from it.
_kept: dict[str, _Boxed] = {}


class Held:
    """Source of the value that a call's library keeps."""

    def __init__(self, key: str | None = None) -> None:
        #: Key of the value among others.
        self.key = urandom(16).hex() if key is None else key

    def keep(self, setup: Callable[..., Any], arguments: tuple[Any, ...]) -> None:
        """Sets the value up in a library, and keeps its exception: a library that raises is started again and again."""
        _kept[self.key] = call(setup, arguments, {})

    def __call__(self) -> Any:
        """Returns the value; raises the exception of the setup."""
        return _value(_kept[self.key])

    def __reduce__(self) -> tuple[type[Held], tuple[str]]:
        return Held, (self.key,)


def _value(boxed: _Boxed) -> Any:
    if boxed.error is not None:
        raise boxed.error
    return boxed.value


def _complete(future: Future[Any], task: Any) -> None:
    """Completes a future with the outcome of a task."""
    try:
        found = task.output
        if isinstance(found, _Boxed):
            future.set_result(_value(found))
        elif isinstance(found, Exception):
            raise RuntimeError(f"TaskVine: {task.result}, exit code {task.exit_code}") from found
        else:
            raise RuntimeError(f"TaskVine: {task.result}, exit code {task.exit_code}: {found!r}")
    except Exception as error:
        future.set_exception(error)
