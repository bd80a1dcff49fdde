"""Tasks that submit tasks: the executor and the futures that a task sees while it runs in a worker.

A task waits without blocking its worker: below the wait the worker runs the task's own tasks, and when the stack has
had enough of them, spare workers run the rest. All of it happens in the thread that runs the task.
"""

from __future__ import annotations

import concurrent.futures
import logging
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import _base
from typing import TYPE_CHECKING, Any, TypeVar

from gristmill import _native, _resources

if TYPE_CHECKING:
    from gristmill._context.declare import Context

R = TypeVar("R")

_log = logging.getLogger("gristmill")

#: What ``nested_state`` says.
_PENDING, _SUCCEEDED, _FAILED, _CANCELLED = range(4)
_NAMES = {
    _PENDING: _base.PENDING,
    _SUCCEEDED: _base.FINISHED,
    _FAILED: _base.FINISHED,
    _CANCELLED: _base.CANCELLED_AND_NOTIFIED,
}
#: Items that a lazy ``map`` submits ahead of the result that is asked for.
_WINDOW = 10_000
_DEFAULTS = (None, None, 0, 0, 0, 0, 1.0, False, (1, 0, 0))


def current_executor() -> NestedExecutor:
    """Gives, inside a task, the executor that runs it: what is submitted there are tasks like any others.

    Raises ``RuntimeError`` outside of tasks, and in threads and processes that a task has started.
    """
    _native.nested_check()
    return _executor


def _received() -> NestedExecutor:
    """What an executor is when it arrives in a worker: in a definition that may be before a task runs."""
    return _executor


def _received_options(values: tuple[Any, ...], context: Context | None) -> NestedOptions:
    """What an executor with options is when it arrives in a worker."""
    return NestedOptions(*values, context=context)


class NestedExecutor(concurrent.futures.Executor):
    """The executor as its tasks see it."""

    def submit(self, fn: Callable[..., R], /, *args: Any, **kwargs: Any) -> NestedFuture[R]:
        """Runs ``fn(*args, **kwargs)`` as a task of its own; gives its future.

        The task runs to its end even if the one that submitted it ends before. Futures of this task's tasks may be
        arguments. What would be refused (too many tasks outstanding, shut down) the future raises.
        """
        return NestedFuture(_native.nested_submit(fn, args, kwargs, None))

    def submit_many(
        self, fn: Callable[..., R], /, *iterables: Iterable[Any]
    ) -> list[NestedFuture[R]]:
        """Submits one task per item; gives their futures."""
        return [self.submit(fn, *arguments) for arguments in zip(*iterables, strict=False)]

    def map(
        self,
        fn: Callable[..., R],
        /,
        *iterables: Iterable[Any],
        timeout: float | None = None,
        chunksize: int = 1,
        buffersize: int | None = None,
        ordered: bool = True,
    ) -> Iterator[R]:
        """As ``Executor.map``."""
        return _map(self.submit, fn, iterables, timeout, chunksize, buffersize, ordered)

    def options(
        self,
        *,
        timeout: float | None = None,
        deadline: float | None = None,
        retries: int = 0,
        loss_retries: int = 0,
        timeout_retries: int = 0,
        priority: int = 0,
        grace: float = 1.0,
        views: bool = False,
        cores: int = 1,
        gpus: float = 0,
        memory: int | str | None = None,
        context: Context | None = None,
    ) -> NestedOptions:
        """As ``Executor.options``; arrays that a task gets from its tasks are read-only views anyhow."""
        budgets = (retries, loss_retries, timeout_retries)
        needs = _resources.demand(cores, gpus, memory)
        values = (timeout, deadline, *budgets, priority, grace, views, needs)
        return NestedOptions(*values, context=context)

    def _define_context(
        self,
        name: str,
        description: bytes,
        terms: tuple[int, bool, float | None, tuple[int, int, int]],
    ) -> _native.NestedContext:
        """Tells the engine what a context is, or which of those that it knows."""
        return _native.nested_define_context(name, description, terms)

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """Raises ``RuntimeError``: a task cannot shut down the executor that runs it."""
        raise RuntimeError("a task cannot shut down the executor that runs it")

    def __reduce__(self) -> Any:
        raise TypeError(
            "an executor cannot be sent to another process, except to a task that it runs"
        )


class NestedOptions:
    """An executor, as its tasks see it, with options for what they submit."""

    def __init__(self, *values: Any, context: Context | None = None) -> None:
        self._values = values or _DEFAULTS
        self._context = context
        _native.nested_check_options(self._values)
        if context is not None:
            from gristmill._context.declare import check_named

            check_named(context, self._values[-1])

    def submit(self, fn: Callable[..., R], /, *args: Any, **kwargs: Any) -> NestedFuture[R]:
        """As ``NestedExecutor.submit``, with these options."""
        use = None if self._context is None else self._context._use(_executor)
        return NestedFuture(_native.nested_submit(fn, args, kwargs, self._values, use))

    def _for_tasks(self) -> tuple[tuple[Any, ...], Context | None]:
        return self._values, self._context

    def map(
        self,
        fn: Callable[..., R],
        /,
        *iterables: Iterable[Any],
        timeout: float | None = None,
        chunksize: int = 1,
        buffersize: int | None = None,
        ordered: bool = True,
    ) -> Iterator[R]:
        """As ``NestedExecutor.map``, with these options for each item's task."""
        return _map(self.submit, fn, iterables, timeout, chunksize, buffersize, ordered)

    def __reduce__(self) -> Any:
        raise TypeError(
            "an executor cannot be sent to another process, except to a task that it runs"
        )


class NestedFuture(_native.Ticket, concurrent.futures.Future[R]):
    """The future of a task that a task submitted. Only that task can wait for it."""

    def __init__(self, _ticket: int) -> None:
        """Leaves the base class's state aside: the worker knows it."""

    def result(self, timeout: float | None = None) -> R:
        """The task's value; raises what the task raised, ``CancelledError``, or ``TimeoutError``.

        Tasks of this task may run in this wait, in its thread; the timeout does not interrupt them.
        """
        value: R = _native.nested_result(self, timeout)
        return value

    def exception(self, timeout: float | None = None) -> BaseException | None:
        """What the task raised, or ``None``; raises ``CancelledError`` or ``TimeoutError``."""
        error: BaseException | None = _native.nested_exception(self, timeout)
        return error

    def done(self) -> bool:
        """Whether the task has ended."""
        return bool(_native.nested_state(self._ticket, True) != _PENDING)

    def running(self) -> bool:
        """``False``: where the task is meanwhile is not known here."""
        return False

    def cancelled(self) -> bool:
        """Whether the task was cancelled."""
        return bool(_native.nested_state(self._ticket, True) == _CANCELLED)

    def cancel(self, running: bool = False, grace: float = 1.0) -> bool:
        """As ``Future.cancel`` of the executor's own futures."""
        return bool(_native.nested_cancel(self._ticket, grace if running else None))

    def add_done_callback(self, fn: Callable[[Any], object]) -> None:
        """Calls ``fn(future)`` when the task has ended: now, or in this thread while it waits."""
        is_pending = _native.nested_watch(self._ticket)
        _watches.setdefault(self._ticket, _Watch(self)).callbacks.append(fn)
        if not is_pending:
            _completed(self._ticket)

    def set_running_or_notify_cancel(self) -> bool:
        """Raises ``RuntimeError``: not for users."""
        raise RuntimeError("the engine sets the outcome of its futures, nobody else")

    def set_result(self, result: R) -> None:
        """Raises ``RuntimeError``: not for users."""
        raise RuntimeError("the engine sets the outcome of its futures, nobody else")

    def set_exception(self, exception: BaseException | None) -> None:
        """Raises ``RuntimeError``: not for users."""
        raise RuntimeError("the engine sets the outcome of its futures, nobody else")

    @property
    def _state(self) -> str:  # type: ignore[override]
        return _NAMES[_native.nested_state(self._ticket, False)]

    @property
    def _condition(self) -> threading.RLock:  # type: ignore[override]
        return _lock

    @property
    def _waiters(self) -> _Waiters:  # type: ignore[override]
        return _Waiters(self)

    def __repr__(self) -> str:
        return f"<NestedFuture {self._ticket}>"

    def __reduce__(self) -> Any:
        raise TypeError(
            "a future cannot leave its task: pass it as an argument, or return its result()"
        )


class _Watch:
    """Who wants to know of one future; keeps it until then."""

    __slots__ = ("callbacks", "future", "waiters")

    def __init__(self, future: NestedFuture[Any]) -> None:
        self.future = future
        self.waiters: list[Any] = []
        self.callbacks: list[Callable[[Any], object]] = []


_executor = NestedExecutor()
_watches: dict[int, _Watch] = {}
#: ``concurrent.futures`` wants one; everything here happens in one thread.
_lock = threading.RLock()


class _Event:
    """Stands in for a waiter's ``threading.Event``: waiting runs tasks."""

    def __init__(self) -> None:
        self._is_set = False

    def is_set(self) -> bool:
        return self._is_set

    def set(self) -> None:
        self._is_set = True

    def clear(self) -> None:
        self._is_set = False

    def wait(self, timeout: float | None = None) -> bool:
        return self._is_set or bool(_native.nested_wait(self.is_set, timeout))


class _Waiters:
    """The ``_waiters`` of one future, as ``concurrent.futures`` uses them."""

    def __init__(self, future: NestedFuture[Any]) -> None:
        self._future = future

    def append(self, waiter: Any) -> None:
        if not isinstance(waiter.event, _Event):
            waiter.event = _Event()
        if _native.nested_watch(self._future._ticket):
            _watches.setdefault(self._future._ticket, _Watch(self._future)).waiters.append(waiter)

    def remove(self, waiter: Any) -> None:
        watch = _watches.get(self._future._ticket)
        if watch is not None and waiter in watch.waiters:
            watch.waiters.remove(waiter)
            if not watch.waiters and not watch.callbacks:
                del _watches[self._future._ticket]


def _completed(ticket: int) -> None:
    """Called by the worker when a watched task has ended."""
    watch = _watches.pop(ticket, None)
    if watch is None:
        return
    state = _native.nested_state(ticket, False)
    for waiter in watch.waiters:
        if state == _CANCELLED:
            waiter.add_cancelled(watch.future)
        elif state == _FAILED:
            waiter.add_exception(watch.future)
        else:
            waiter.add_result(watch.future)
    for callback in watch.callbacks:
        try:
            callback(watch.future)
        except Exception:
            _log.exception("exception calling callback for %r", watch.future)


def wait_any(futures: Iterable[NestedFuture[R]], timeout: float | None = None) -> NestedFuture[R]:
    """``gristmill.wait_any`` in a task."""
    waiting = list(futures)
    if not waiting:
        raise ValueError("wait_any needs at least one future")
    done, _ = concurrent.futures.wait(waiting, timeout, concurrent.futures.FIRST_COMPLETED)
    for future in waiting:
        if future in done:
            return future
    raise TimeoutError


def _map(
    submit: Callable[..., NestedFuture[R]],
    fn: Callable[..., R],
    iterables: tuple[Iterable[Any], ...],
    timeout: float | None,
    chunksize: int,
    buffersize: int | None,
    ordered: bool,
) -> Iterator[R]:
    if chunksize < 1:
        raise ValueError("chunksize must be >= 1.")
    if buffersize is not None and buffersize < 1:
        raise ValueError("buffersize must be None or > 0")
    end = None if timeout is None else time.monotonic() + timeout
    items = zip(*iterables, strict=False)
    window = buffersize or _WINDOW
    waiting: deque[NestedFuture[R]] = deque()

    def fill() -> None:
        while len(waiting) < window:
            try:
                arguments = next(items)
            except StopIteration:
                return
            waiting.append(submit(fn, *arguments))

    fill()
    return _results(waiting, fill, end, ordered)


def _results(
    waiting: deque[NestedFuture[R]], fill: Callable[[], None], end: float | None, ordered: bool
) -> Iterator[R]:
    def left() -> float | None:
        return None if end is None else max(0.0, end - time.monotonic())

    try:
        while waiting:
            future = waiting[0] if ordered else wait_any(waiting, left())
            value = future.result(left())
            waiting.remove(future)
            del future
            fill()
            yield value
    finally:
        for future in waiting:
            if future._state == _base.PENDING:
                future.cancel()
