"""Tasks that submit tasks: the executor and the futures that a task sees while it runs in a worker.

A task waits without blocking its worker: during the wait the worker runs the task's own tasks on the same stack. When
the stack holds enough of them, spare workers run the rest. The functions of this module run in the thread that runs
the task.
"""

from __future__ import annotations

import concurrent.futures
import contextlib
import logging
import threading
import time
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator
from concurrent.futures import _base
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from gristmill import _completion, _forked, _native, _option_values, _options
from gristmill._condition import CONDITION, FINAL, Condition
from gristmill._interrupt import TaskInterrupted
from gristmill._mapping import Mapper

if TYPE_CHECKING:
    from gristmill._context.declare import Context
    from gristmill._mapping import MapTerms
    from gristmill._task_options import TaskOptions

R = TypeVar("R")

_log = logging.getLogger("gristmill")

#: The states that ``nested_state`` returns.
_PENDING, _SUCCEEDED, _FAILED, _CANCELLED = range(4)
_NAMES = {
    _PENDING: _base.PENDING,
    _SUCCEEDED: _base.FINISHED,
    _FAILED: _base.FINISHED,
    _CANCELLED: _base.CANCELLED_AND_NOTIFIED,
}
#: Seconds between two checks of a waiting task for futures that other threads have completed.
_LOOK_S = 0.02


def current_executor() -> NestedExecutor:
    """Returns, inside a task, the executor that runs it. Tasks that are submitted there are like any others.

    Raises ``RuntimeError`` outside of tasks, and in threads and processes that a task has started.
    """
    _native.nested_check()
    return _executor


def _received() -> NestedExecutor:
    """Returns the replacement of a pickled executor in a worker.

    A worker may unpickle it with the definition of a function, before any task runs.
    """
    return _executor


def _received_bound(values: Any) -> NestedBoundExecutor:
    """Returns the replacement of a pickled executor with options in a worker."""
    return NestedBoundExecutor(values)


class NestedExecutor(Mapper, concurrent.futures.Executor):
    """The executor as its tasks see it."""

    def submit(self, fn: Callable[..., R], /, *args: Any, **kwargs: Any) -> NestedFuture[R]:
        """Runs ``fn(*args, **kwargs)`` as a task of its own and returns its future.

        The task runs to its end even if the task that submitted it ends before. Futures of this task's tasks may be
        arguments. If the engine refuses the task (too many tasks outstanding, shut down), the future raises the error.
        """
        return NestedFuture(_native.nested_submit(fn, args, kwargs, None))

    def submit_many(
        self, fn: Callable[..., R], /, *iterables: Iterable[Any]
    ) -> list[NestedFuture[R]]:
        """Submits one task per item and returns their futures."""
        return [self.submit(fn, *arguments) for arguments in zip(*iterables, strict=False)]

    def _map(
        self, fn: Callable[..., R], iterables: tuple[Iterable[Any], ...], terms: MapTerms
    ) -> Iterator[R]:
        return _map(self.submit, fn, iterables, terms)

    def options(
        self,
        *,
        timeout: float | None = None,
        start_within: float | None = None,
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
    ) -> NestedBoundExecutor:
        """Works like ``Executor.options``. Arrays that a task gets from its tasks are read-only views in any case."""
        options = _option_values.make(
            timeout=timeout,
            start_within=start_within,
            retries=retries,
            loss_retries=loss_retries,
            timeout_retries=timeout_retries,
            priority=priority,
            grace=grace,
            views=views,
            cores=cores,
            gpus=gpus,
            memory=memory,
            context=context,
        )
        return NestedBoundExecutor(options)

    def bind(self, options: TaskOptions) -> NestedBoundExecutor:
        """Works like ``Executor.bind``."""
        return NestedBoundExecutor(_option_values.of_caller(options))

    def _define_context(
        self,
        name: str,
        description: bytes,
        terms: tuple[int, bool, float | None, tuple[int, int, int]],
    ) -> _native.NestedContext:
        """Registers a context with the engine, or finds the one registered before. Returns its handle."""
        return _native.nested_define_context(name, description, terms)

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """Raises ``RuntimeError``: a task cannot shut down the executor that runs it."""
        raise RuntimeError("a task cannot shut down the executor that runs it")

    def __reduce__(self) -> Any:
        raise TypeError(
            "an executor cannot be sent to another process, except to a task that it runs"
        )


class NestedBoundExecutor(Mapper):
    """An executor, as its tasks see it, with options for what they submit."""

    def __init__(self, values: Any) -> None:
        self._values = values
        self._terms = _native.NestedTerms(values)

    @property
    def executor(self) -> NestedExecutor:
        """The executor."""
        return _executor

    @property
    def options(self) -> TaskOptions:
        """The options."""
        return _option_values.task_options(self._values)

    def submit(self, fn: Callable[..., R], /, *args: Any, **kwargs: Any) -> NestedFuture[R]:
        """Works like ``NestedExecutor.submit``, with these options."""
        context = self._values.context
        use = None if context is None else context._use(_executor)
        return NestedFuture(_native.nested_submit(fn, args, kwargs, self._terms, use))

    def _map(
        self, fn: Callable[..., R], iterables: tuple[Iterable[Any], ...], terms: MapTerms
    ) -> Iterator[R]:
        return _map(self.submit, fn, iterables, terms)

    def __reduce__(self) -> Any:
        raise TypeError(
            "an executor cannot be sent to another process, except to a task that it runs"
        )


class NestedFuture(_native.Ticket, concurrent.futures.Future[R]):
    """The future of a task that a task submitted. Only that task can wait for it."""

    def __init__(self, _ticket: int) -> None:
        """Ignores the state of the base class: the worker has it."""

    def result(self, timeout: float | None = None) -> R:
        """Returns the task's value. Raises what the task raised, ``CancelledError``, or ``TimeoutError``.

        Tasks of this task may run during this wait, in its thread. The timeout does not interrupt them.
        """
        if timeout is not None:
            timeout = _options.patience(timeout)
        value: R = _native.nested_result(self, timeout)
        return value

    def exception(self, timeout: float | None = None) -> BaseException | None:
        """Returns what the task raised, or ``None``. Raises ``CancelledError`` or ``TimeoutError``."""
        if timeout is not None:
            timeout = _options.patience(timeout)
        error: BaseException | None = _native.nested_exception(self, timeout)
        return error

    def done(self) -> bool:
        """Returns whether the task has ended."""
        return bool(_native.nested_state(self._ticket, True) != _PENDING)

    def running(self) -> bool:
        """Returns ``False``: the worker does not know whether the task has started."""
        return False

    def cancelled(self) -> bool:
        """Returns whether the task was cancelled."""
        return bool(_native.nested_state(self._ticket, True) == _CANCELLED)

    def cancel(self, running: bool = False, grace: float = 1.0) -> bool:
        """Works like ``Future.cancel`` of the executor's own futures."""
        grace = _options.seconds("grace", grace)
        return bool(_native.nested_cancel(self._ticket, grace if running else None))

    def add_done_callback(self, fn: Callable[[Any], object]) -> None:
        """Calls ``fn(future)`` when the task has ended: at once, or in this thread while it waits.

        Raises ``RuntimeError`` for a callback of ``asyncio`` if the task has not ended: a running loop waits for other
        events and would never be notified.
        """
        _options.function("fn", fn)
        if getattr(fn, "__module__", None) == "asyncio.futures" and not self.done():
            raise _no_loop()
        _native.nested_watch(self._ticket)  # raises for a future of another task
        ticket, fresh, callbacks = self._ticket, _Watch(self), [fn]
        # Signal handlers run at any call and may change ``_watches``, so the next three lines call no function.
        if ticket not in _watches:
            _watches[ticket] = fresh
        _watches[ticket].callbacks += callbacks
        # Checks again: a signal handler may have completed the task before the callback was registered.
        if not _native.nested_watch(ticket):
            _completed(ticket)

    def __await__(self) -> Generator[Any, None, R]:
        """Returns the value of a task that has ended. Raises ``RuntimeError`` if it has not: a loop cannot wait."""
        if not self.done():
            raise _no_loop()
        return self.result()
        yield  # makes this a generator, which can be awaited

    def set_running_or_notify_cancel(self) -> bool:
        """Raises ``RuntimeError``: only the engine sets the outcome of its futures."""
        raise RuntimeError("only the engine sets the outcome of its futures")

    def set_result(self, result: R) -> None:
        """Raises ``RuntimeError``: only the engine sets the outcome of its futures."""
        raise RuntimeError("only the engine sets the outcome of its futures")

    def set_exception(self, exception: BaseException | None) -> None:
        """Raises ``RuntimeError``: only the engine sets the outcome of its futures."""
        raise RuntimeError("only the engine sets the outcome of its futures")

    @property
    def _state(self) -> str:  # type: ignore[override]
        return CONDITION.state(self)

    def _current_state(self) -> str:
        return _NAMES[_native.nested_state(self._ticket, False)]

    @property
    def _condition(self) -> Condition:  # type: ignore[override]
        return CONDITION

    @property
    def _waiters(self) -> _Waiters:  # type: ignore[override]
        return _Waiters(self)

    def __repr__(self) -> str:
        return f"<NestedFuture {self._ticket}>"

    def __reduce__(self) -> Any:
        raise TypeError(
            "a future cannot leave its task: pass it as an argument, or return its result()"
        )


def _no_loop() -> RuntimeError:
    return RuntimeError(
        "an asyncio loop inside a task cannot wait for tasks that the task submitted, because "
        "these may need the thread of the loop: call "
        "future.result(), gristmill.wait_any or concurrent.futures.wait, which run them meanwhile"
    )


class _Watch:
    """Waiters and callbacks of one future, which stays alive until they are notified."""

    __slots__ = ("callbacks", "future", "waiters")

    def __init__(self, future: NestedFuture[Any]) -> None:
        self.future = future
        self.waiters: dict[Any, None] = {}
        self.callbacks: list[Callable[[Any], object]] = []


_executor = NestedExecutor()
#: Waiters and callbacks by ticket. Everything here happens in one thread. Signal handlers run in it at any call and may
#: wait for futures, so only statements without a call change this dict.
_watches: dict[int, _Watch] = {}


class _Event:
    """Replacement for a waiter's ``threading.Event``: waiting runs tasks."""

    def __init__(self) -> None:
        self._is_set = False

    def is_set(self) -> bool:
        return self._is_set

    def set(self) -> None:
        self._is_set = True

    def clear(self) -> None:
        self._is_set = False

    def wait(self, timeout: float | None = None) -> bool:
        end = None if timeout is None else time.monotonic() + timeout
        while not self._is_set:
            left = None if end is None else max(0.0, end - time.monotonic())
            # The waiter may wait for futures of other executors too, and other threads do not wake this one.
            has_threads = threading.active_count() > 1
            step = _LOOK_S if has_threads and (left is None or left > _LOOK_S) else left
            if not _native.nested_wait(self.is_set, step) and step == left:
                break
        return self._is_set


class _Waiters:
    """The ``_waiters`` of one future, as ``concurrent.futures`` uses them."""

    def __init__(self, future: NestedFuture[Any]) -> None:
        self._future = future

    def append(self, waiter: Any) -> None:
        if not isinstance(waiter.event, _Event):
            before, event = waiter.event, _Event()
            if isinstance(before, _completion.Event):
                before.give_way(waiter, event)
            else:
                waiter.event = event
                if before.is_set():
                    event.set()
        if CONDITION.state(self._future) in FINAL:
            return
        ticket, fresh = self._future._ticket, _Watch(self._future)
        if ticket not in _watches:
            _watches[ticket] = fresh
        _watches[ticket].waiters[waiter] = None
        if not _native.nested_watch(ticket):
            _completed(ticket)

    def remove(self, waiter: Any) -> None:
        ticket = self._future._ticket
        if ticket in _watches and waiter in _watches[ticket].waiters:
            watch = _watches[ticket]
            del watch.waiters[waiter]
            if not watch.waiters and not watch.callbacks:
                del _watches[ticket]


def _completed(ticket: int) -> None:
    """Notifies the waiters and callbacks of a task that has ended. The worker calls this."""
    watch = _watches.pop(ticket, None)
    if watch is None:
        return
    try:
        state = _native.nested_state(ticket, False)
    except RuntimeError:
        return  # the task that submitted it has ended, and its futures with it
    for waiter in watch.waiters:
        if state == _CANCELLED:
            waiter.add_cancelled(watch.future)
        elif state == _FAILED:
            waiter.add_exception(watch.future)
        else:
            waiter.add_result(watch.future)
    interrupt: BaseException | None = None
    for callback in watch.callbacks:
        try:
            _forked.guarded(callback, watch.future)
        except (KeyboardInterrupt, TaskInterrupted) as error:
            interrupt = error  # the interrupt is meant for the task that waits in this thread
        except BaseException:
            _log.exception("exception calling callback for %r", watch.future)
    if interrupt is not None:
        raise interrupt


def _map(
    submit: Callable[..., NestedFuture[R]],
    fn: Callable[..., R],
    iterables: tuple[Iterable[Any], ...],
    terms: MapTerms,
) -> Iterator[R]:
    end = None if terms.timeout is None else time.monotonic() + terms.timeout
    source = _Source(submit, fn, iterables, terms)
    source.fill()
    return _Results(source, end, terms.is_ordered)


class _Bytes:
    """The bytes that a map holds: items submitted ahead, and results that were not fetched."""

    __slots__ = ("_held", "_items", "_items_min", "_max", "_result_mean", "is_used")

    def __init__(self) -> None:
        self._max = _native.map_bytes_max()
        #: The number of items that are submitted whatever their size: a task does not know how many workers there are.
        self._items_min = 2 * _native.cpu_count()
        #: Bytes of the items whose results were not taken, by ticket.
        self._items: dict[int, int] = {}
        self._held = 0
        #: Running mean of the bytes of a result.
        self._result_mean = 0
        #: True once an item or a result had a size that counts; most maps have none.
        self.is_used = False

    def submitted(self, ticket: int, size: int) -> None:
        """Adds an item of some bytes."""
        self.is_used = True
        self._items[ticket] = size
        self._held += size

    def taken(self, ticket: int, size: int | None) -> None:
        """Removes an item, whose value has some bytes; ``None`` if it has no value."""
        self.is_used = True
        self._held -= self._items.pop(ticket, 0)
        if size is not None:
            self._result_mean += (size - self._result_mean) // 8

    def is_full(self, waiting: int) -> bool:
        """Returns whether no further item may be submitted while the results of so many items were not taken."""
        held = self._held + waiting * self._result_mean
        return held >= self._max and waiting >= self._items_min


class _Source(Generic[R]):
    """The items of a map, and the futures of the submitted items."""

    def __init__(
        self,
        submit: Callable[..., NestedFuture[R]],
        fn: Callable[..., R],
        iterables: tuple[Iterable[Any], ...],
        terms: MapTerms,
    ) -> None:
        self._submit = submit
        self._fn = fn
        self._items: Iterator[tuple[Any, ...]] = zip(*iterables, strict=False)
        self._window = terms.window
        self._bytes = _Bytes() if terms.is_bounded else None
        self.waiting: deque[NestedFuture[R]] = deque()
        #: The exception raised while the next item was read or submitted. It is raised after the results of the
        #: submitted items.
        self.failure: Exception | None = None

    def fill(self) -> None:
        """Submits items until the window is full, or one fails."""
        held = self._bytes
        while len(self.waiting) < self._window and self.failure is None:
            if held is not None and held.is_used and held.is_full(len(self.waiting)):
                return
            try:
                arguments = next(self._items, None)
                if arguments is None:
                    return
                future = self._submit(self._fn, *arguments)
                self.waiting.append(future)
                if held is not None and (size := _native.nested_size(False)):
                    held.submitted(future._ticket, size)
            except Exception as error:
                self.failure = error

    def take(self, future: NestedFuture[R], has_value: bool = False) -> None:
        """Removes a future that has ended and submits an item in its place.

        :param has_value: true if its value was the last that this worker fetched.
        """
        self.waiting.remove(future)
        if (held := self._bytes) is not None:
            size = _native.nested_size(True) if has_value else None
            if size or held.is_used:
                held.taken(future._ticket, size)
        self.fill()

    def end(self) -> None:
        """Cancels tasks that have not started, and reads no more items."""
        self._items, self.failure = iter(()), None
        waiting, self.waiting = self.waiting, deque()
        for future in waiting:
            if future._state == _base.PENDING:
                future.cancel()

    def next_failure(self) -> Exception | None:
        """Takes and returns the failure if it is next in order."""
        failure = None if self.waiting else self.failure
        if failure is not None:
            self.failure = None
        return failure


class _Results(Iterator[R]):
    """The results of a map. An exception of one item loses none of the others."""

    def __init__(self, source: _Source[R], end: float | None, ordered: bool) -> None:
        self._source = source
        self._end = end
        self._ordered = ordered

    def __next__(self) -> R:
        """Returns the next result. Raises what its item raised."""
        source = self._source
        if (failure := source.next_failure()) is not None:
            source.fill()
            raise failure
        waiting = source.waiting
        if not waiting:
            raise StopIteration
        future: Any = waiting[0] if self._ordered else _completion.wait_any(waiting, self._left())
        try:
            value: R = future.result(self._left())
        except StopIteration as error:
            source.take(future)
            raise RuntimeError("a task of a map raised StopIteration") from error
        except BaseException:
            # A timeout, or an interrupt of the task that waits here, loses no item.
            if future._state != _base.PENDING:
                source.take(future)
            raise
        source.take(future, True)
        return value

    def _left(self) -> float | None:
        return None if self._end is None else max(0.0, self._end - time.monotonic())

    def close(self) -> None:
        """Cancels tasks that have not started. There are no more results."""
        self._source.end()

    def __del__(self) -> None:
        # The task that called ``map`` may have ended, and its futures with it.
        with contextlib.suppress(RuntimeError):
            self.close()
