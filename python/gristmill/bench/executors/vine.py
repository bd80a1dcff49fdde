"""A manager of TaskVine in a thread, for a program that waits for futures, and what its workers run.

A manager belongs to one thread and moves only while that waits for it, for whole seconds or until a task has ended;
and no other thread of Python runs meanwhile, as the interpreter's lock is kept. So the program is given a moment to
submit what follows before the manager is waited for, unless workers have enough to do.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import CancelledError, Future
from contextlib import AbstractContextManager, suppress
from os import urandom
from queue import Empty, SimpleQueue
from threading import Thread
from typing import Any

#: How long a manager waits at a time, at least.
_TURN_S = 1
#: How long the program may take to submit what follows on the end of a task.
_MOMENT_S = 0.0005
#: Tasks of each worker that are enough to do.
_ENOUGH = 2

#: Starts a manager with its workers, and ends them.
Start = Callable[[], AbstractContextManager[Any]]
#: Does something with a manager.
Action = Callable[[Any], Any]
#: Makes a task of TaskVine.
Make = Callable[[], Any]
#: Does what was asked for with a manager; its future.
_Do = Callable[[Any, Future[Any]], None]


class Manager:
    """A thread with a manager.

    :param start: is called in the thread; raises what it raises.
    """

    def __init__(self, start: Start, workers: int) -> None:
        #: Each with the future of what is done.
        self._asked: SimpleQueue[tuple[Future[Any], _Do] | None] = SimpleQueue()
        self._enough = _ENOUGH * workers
        self._is_over = False
        self._is_cancelled = False
        #: By their numbers.
        self._open: dict[int, Future[Any]] = {}
        ready: Future[None] = Future()
        self._thread = Thread(target=self._serve, args=(start, ready))
        self._thread.start()
        ready.result()

    def run(self, action: Action) -> Future[Any]:
        """Has the thread do something; its future has what that gives."""
        return self._ask(lambda manager, future: future.set_result(action(manager)))

    def submit(self, make: Make) -> Future[Any]:
        """Has the thread submit a task that it makes; its future has what the task gives."""

        def submit(manager: Any, future: Future[Any]) -> None:
            task = make()
            manager.submit(task)
            self._open[task.id] = future

        return self._ask(submit)

    def shutdown(self, *, cancel: bool = False) -> None:
        """Ends when all tasks have, or cancels those that have not."""
        self._is_cancelled = cancel
        self._asked.put(None)
        self._thread.join()

    def _ask(self, do: _Do) -> Future[Any]:
        future: Future[Any] = Future()
        # What was handed over is not taken back.
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
        """Does what was asked for; waits for that if there is nothing else to do. Whether more may be asked for."""
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
        """What was asked for; ``None``: that it ends; ``Empty``: nothing."""
        if not self._open:
            return self._asked.get()
        with suppress(Empty):
            if len(self._open) < self._enough:
                return self._asked.get(timeout=_MOMENT_S)
            return self._asked.get_nowait()
        return Empty

    def _fail(self, error: BaseException) -> None:
        """Has all that is open and all that is asked for end with an error."""
        for future in self._open.values():
            future.set_exception(error)
        while not self._is_over:
            asked = self._asked.get()
            if asked is None:
                break
            asked[0].set_exception(error)


class _Boxed:
    """What a call gives: an exception that is returned is told from one that is raised."""

    def __init__(self, value: Any, error: Exception | None) -> None:
        self.value = value
        self.error = error


def call(function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> _Boxed:
    """What workers run."""
    try:
        return _Boxed(function(*args, **kwargs), None)
    except Exception as error:
        return _Boxed(None, error)


#: What this process keeps, by keys: it is the library of a worker, or was forked from it.
_kept: dict[str, _Boxed] = {}


class Held:
    """Gives a call what its library keeps."""

    def __init__(self, key: str | None = None) -> None:
        #: Its name among others.
        self.key = urandom(16).hex() if key is None else key

    def keep(self, setup: Callable[..., Any], arguments: tuple[Any, ...]) -> None:
        """Sets it up in a library, which would be started again and again if that raised."""
        _kept[self.key] = call(setup, arguments, {})

    def __call__(self) -> Any:
        """What was set up; raises what the setup has raised."""
        return _value(_kept[self.key])

    def __reduce__(self) -> tuple[type[Held], tuple[str]]:
        return Held, (self.key,)


def _value(boxed: _Boxed) -> Any:
    if boxed.error is not None:
        raise boxed.error
    return boxed.value


def _complete(future: Future[Any], task: Any) -> None:
    """Tells what a task has come to."""
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
