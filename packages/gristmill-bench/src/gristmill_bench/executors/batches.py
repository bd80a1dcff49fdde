"""Submissions that are gathered and sent as maps: each task costs the program less, and waits a little longer.

Calls of one function are gathered up to a number. They are sent when that number is reached, when another function is
called, and whenever no map is under way: gathered calls are never left behind, and a single call goes at once. Results
are reported in the order in which calls were sent, because only its index in the map identifies a lost task.
"""

from __future__ import annotations

import traceback
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import CancelledError
from threading import Condition, Lock, Thread
from typing import Any, Protocol

from gristmill import TaskInterrupted

#: Arguments of a call.
Arguments = tuple[tuple[Any, ...], dict[str, Any]]


#: Function that takes a function and its items, and returns an iterator of results.
Map = Callable[[Callable[..., Any], list[Any]], Any]


class Maps(Protocol):
    """An executor whose maps send many calls as one."""

    @property
    def map(self) -> Map:
        """Map that gives results in order; a lost result raises, and the results after it still come."""

    def shutdown(self, wait: bool, *, cancel_futures: bool) -> None:
        """Ends every process of the executor."""


class Gathered:
    """The future of a call.

    The standard library's future has a lock and a condition, and costs more than an item of a map.
    """

    __slots__ = ("_batches", "callbacks", "error", "is_done", "value")

    def __init__(self, batches: Batches) -> None:
        self._batches = batches
        self.callbacks: list[Callable[[Any], object]] = []
        self.error: BaseException | None = None
        self.is_done = False
        self.value: Any = None

    def result(self, timeout: float | None = None) -> Any:
        """Waits for the result; raises the exception of the call, or ``TimeoutError``."""
        if not self.is_done:
            self._batches.wait_for(self, timeout)
        if self.error is not None:
            raise self.error
        return self.value

    def exception(self, timeout: float | None = None) -> BaseException | None:
        """Waits for the end of the call and returns its exception."""
        if not self.is_done:
            self._batches.wait_for(self, timeout)
        return self.error

    def done(self) -> bool:
        """Returns whether the call has ended."""
        return self.is_done

    def cancel(self) -> bool:
        """Returns ``False``: gathered calls cannot be cancelled one by one."""
        return False

    def cancelled(self) -> bool:
        """Returns ``False`` always."""
        return False

    def add_done_callback(self, callback: Callable[[Any], object], /) -> None:
        """Calls ``callback`` once the call has ended."""
        with self._batches.lock:
            if not self.is_done:
                self.callbacks.append(callback)
                return
        callback(self)


class Batches:
    """An executor that sends at most ``size`` calls of a function as one map.

    :param executor: has to take a map of that size whole, because a call that cannot be sent has no index in the
        results.
    :param map: a map with options of its own, instead of the executor's.
    """

    def __init__(self, executor: Maps, size: int, map: Map | None = None) -> None:
        self._executor = executor
        self._map = map or executor.map
        self._size = size
        #: Lock of all futures and of the gathered calls.
        self.lock = Lock()
        self._changed = Condition(self.lock)
        self._ended = Condition(self.lock)
        self._waiters = 0
        self._is_over = False
        self._function: Callable[..., Any] | None = None
        #: Attempts by function, so that the executor recognizes a function that comes again.
        self._attempts: dict[Callable[..., Any], Attempt] = {}
        self._gathered: list[tuple[Gathered, Arguments]] = []
        #: Maps under way, oldest first, with the futures of their items.
        self._sent: deque[tuple[Any, list[Gathered]]] = deque()
        self._teller_waits = False
        self._teller = Thread(target=self._tell, name="batches")
        self._teller.start()

    def submit(self, function: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Gathered:
        """Gathers a call and returns its future."""
        future = Gathered(self)
        with self.lock:
            if self._is_over:
                raise RuntimeError("cannot submit after shutdown")
            if function is not self._function:
                self._send()
                self._function = function
            self._gathered.append((future, (args, kwargs)))
            if len(self._gathered) >= self._size:
                self._send()
            if self._teller_waits:
                self._changed.notify()
        return future

    def wait_for(self, future: Gathered, timeout: float | None) -> None:
        """Waits for the end of a call. Raises ``TimeoutError``."""
        with self.lock:
            self._waiters += 1
            try:
                if not self._ended.wait_for(future.done, timeout):
                    raise TimeoutError
            finally:
                self._waiters -= 1

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """Completes all submitted calls, or cancels them, and ends every process and thread."""
        with self.lock:
            self._is_over = True
            if cancel_futures and self._gathered:
                left, self._gathered = self._gathered, []
                self._sent.append((_refused(CancelledError()), [future for future, _ in left]))
            self._changed.notify()
        if cancel_futures:
            # Calls that wait in sent maps end with an error, and the thread then completes their futures.
            self._executor.shutdown(False, cancel_futures=True)
        self._teller.join()
        self._executor.shutdown(wait, cancel_futures=cancel_futures)

    def _send(self) -> None:
        """Sends the gathered calls; the caller holds the lock."""
        gathered, self._gathered = self._gathered, []
        if not gathered:
            return
        assert self._function is not None, "gathered with it"
        attempt = self._attempts.get(self._function)
        if attempt is None:
            attempt = self._attempts[self._function] = Attempt(self._function)
        try:
            results = self._map(attempt, [arguments for _, arguments in gathered])
        except Exception as error:
            # The thread that completes futures reports this error: the lock is held here, and a callback may submit.
            results = _refused(error)
        self._sent.append((results, [future for future, _ in gathered]))

    def _tell(self) -> None:
        """Takes results and completes futures, in a thread of its own."""
        while True:
            with self.lock:
                while not (self._sent or self._gathered or self._is_over):
                    self._teller_waits = True
                    self._changed.wait()
                    self._teller_waits = False
                if not self._sent:
                    self._send()
                if not self._sent:
                    return
                results, futures = self._sent.popleft()
            self._complete(results, futures)

    def _complete(self, results: Any, futures: list[Gathered]) -> None:
        """Completes the futures of a map, each with its result or the error of its task."""
        lost: BaseException = RuntimeError("its map has ended before it")
        for future in futures:
            try:
                value, error = next(results)
            except StopIteration:
                # The map was refused: the first future has the error, and all others get it too.
                value, error = None, lost
            except BaseException as one:
                value, error = None, one
                lost = one
            self._end(future, value, error)

    def _end(self, future: Gathered, value: Any, error: BaseException | None) -> None:
        future.value, future.error = value, error
        with self.lock:
            future.is_done = True
            callbacks, future.callbacks = future.callbacks, []
            if self._waiters:
                self._ended.notify_all()
        for callback in callbacks:
            try:
                callback(future)
            except Exception:
                traceback.print_exc()


def _refused(error: Exception) -> Iterator[Any]:
    """Raises an error instead of giving the results of a map that was not sent."""
    raise error
    yield


class Attempt:
    """A function whose call returns a value and an exception, so that an error is a result like any other."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self._function = function

    def __call__(self, arguments: Arguments) -> tuple[Any, BaseException | None]:
        """Calls the function."""
        args, kwargs = arguments
        try:
            return self._function(*args, **kwargs), None
        except TaskInterrupted:
            raise
        except BaseException as error:
            # A task that calls sys.exit() ends only itself, as it would outside a map, and not the other tasks of the
            # map.
            return None, error

    def _unchanging_parts(self) -> tuple[Any, ...]:
        """Returns all parts that this object is made of."""
        return (self._function,)

    def __reduce__(self) -> tuple[type[Attempt], tuple[Any, ...]]:
        return Attempt, (self._function,)
