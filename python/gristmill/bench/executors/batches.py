"""Submissions that are gathered and sent as maps: what a program pays for each task shrinks, and each waits a little.

Calls of one function are gathered up to a number. They are sent when there are so many, when another function is
called, and whenever nothing is under way: what is gathered is never left, and a single call goes at once. Results are
told in the order in which calls were sent: that of a call whose task is lost says only by its place whose it is.
"""

from __future__ import annotations

import traceback
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import CancelledError
from threading import Condition, Lock, Thread
from typing import Any, Protocol

from gristmill._interrupt import TaskInterrupted

#: Arguments of a call.
Arguments = tuple[tuple[Any, ...], dict[str, Any]]


#: A function and its items, to an iterator of results.
Map = Callable[[Callable[..., Any], list[Any]], Any]


class Maps(Protocol):
    """An executor whose maps send many calls as one."""

    @property
    def map(self) -> Map:
        """Gives results in order; one that is lost raises, and those behind it still come."""

    def shutdown(self, wait: bool, *, cancel_futures: bool) -> None:
        """Ends every process of it."""


class Gathered:
    """The future of a call: the standard library's, with a lock and a condition each, costs more than a map's item."""

    __slots__ = ("_batches", "callbacks", "error", "is_done", "value")

    def __init__(self, batches: Batches) -> None:
        self._batches = batches
        self.callbacks: list[Callable[[Any], object]] = []
        self.error: BaseException | None = None
        self.is_done = False
        self.value: Any = None

    def result(self, timeout: float | None = None) -> Any:
        """Waits for what it returns; raises what it raises, or ``TimeoutError``."""
        if not self.is_done:
            self._batches.wait_for(self, timeout)
        if self.error is not None:
            raise self.error
        return self.value

    def exception(self, timeout: float | None = None) -> BaseException | None:
        """Waits for its end; what it has raised."""
        if not self.is_done:
            self._batches.wait_for(self, timeout)
        return self.error

    def done(self) -> bool:
        """Whether it has ended."""
        return self.is_done

    def cancel(self) -> bool:
        """What was gathered is not looked through again."""
        return False

    def cancelled(self) -> bool:
        """Never."""
        return False

    def add_done_callback(self, callback: Callable[[Any], object], /) -> None:
        """Calls that once it has ended."""
        with self._batches.lock:
            if not self.is_done:
                self.callbacks.append(callback)
                return
        callback(self)


class Batches:
    """An executor that sends at most ``size`` calls of a function as one map.

    :param executor: has to take a map of that size whole: what cannot be sent has no place among the results.
    :param map: with options of its own, instead of the executor's.
    """

    def __init__(self, executor: Maps, size: int, map: Map | None = None) -> None:
        self._executor = executor
        self._map = map or executor.map
        self._size = size
        #: Of all futures and of what is gathered.
        self.lock = Lock()
        self._changed = Condition(self.lock)
        self._ended = Condition(self.lock)
        self._waiters = 0
        self._is_over = False
        self._function: Callable[..., Any] | None = None
        #: By function, so that the executor knows them again.
        self._attempts: dict[Callable[..., Any], Attempt] = {}
        self._gathered: list[tuple[Gathered, Arguments]] = []
        #: Maps under way, oldest first, with the futures of their items.
        self._sent: deque[tuple[Any, list[Gathered]]] = deque()
        self._teller_waits = False
        self._teller = Thread(target=self._tell, name="batches")
        self._teller.start()

    def submit(self, function: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Gathered:
        """Gathers a call."""
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
        """Waits for its end. Raises ``TimeoutError``."""
        with self.lock:
            self._waiters += 1
            try:
                if not self._ended.wait_for(future.done, timeout):
                    raise TimeoutError
            finally:
                self._waiters -= 1

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """Tells of what was submitted, unless that is to be cancelled, and ends every process and thread."""
        with self.lock:
            self._is_over = True
            if cancel_futures and self._gathered:
                left, self._gathered = self._gathered, []
                self._sent.append((_refused(CancelledError()), [future for future, _ in left]))
            self._changed.notify()
        if cancel_futures:
            # What waits in maps that were sent ends with an error, which is then told.
            self._executor.shutdown(False, cancel_futures=True)
        self._teller.join()
        self._executor.shutdown(wait, cancel_futures=cancel_futures)

    def _send(self) -> None:
        """Sends what is gathered; the lock is held."""
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
            # Told by the thread that tells: who is called back may submit.
            results = _refused(error)
        self._sent.append((results, [future for future, _ in gathered]))

    def _tell(self) -> None:
        """The thread that takes results and tells of them."""
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
        """Completes those of a map, each with its result or what its task came to."""
        lost: BaseException = RuntimeError("its map has ended before it")
        for future in futures:
            try:
                value, error = next(results)
            except StopIteration:
                # The map was refused, as the first was told.
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
    """The results of a map that was not sent."""
    raise error
    yield


class Attempt:
    """A function whose call gives what it returned or raised: an error is a result like any other."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self._function = function

    def __call__(self, arguments: Arguments) -> tuple[Any, BaseException | None]:
        """Calls it."""
        args, kwargs = arguments
        try:
            return self._function(*args, **kwargs), None
        except TaskInterrupted:
            raise
        except BaseException as error:
            # One that says sys.exit() ends itself, as it would by itself, and not those beside it.
            return None, error

    def _unchanging_parts(self) -> tuple[Any, ...]:
        """All that it is made of."""
        return (self._function,)

    def __reduce__(self) -> tuple[type[Attempt], tuple[Any, ...]]:
        return Attempt, (self._function,)
