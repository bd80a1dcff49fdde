"""Tasks of an application on any executor, with the recording and transforming around each of them.

An application submits functions and gets futures, which it may pass to further tasks. If nothing is recorded and
nothing transformed, the executor gets the function itself, because the engine must not hide what it measures. The parts
are those of TaPS (Pauloski et al., 2024, section III): executor, filter, transformer, records.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from copy import copy
from queue import SimpleQueue
from time import monotonic, sleep, time
from typing import Any, Generic, Self, TypeVar

import msgspec

from gristmill_bench.call import Call, Passage, value_of
from gristmill_bench.errors import BenchError
from gristmill_bench.interfaces import Backend, Filter, Future, Keeper, Records, Transformer
from gristmill_bench.noting import Noting, Tally
from gristmill_bench.within import Anew, Kept, Prepared, Reuse, Source

Result = TypeVar("Result")


class _Callback(msgspec.Struct):
    """A callback that passes on the wrapper of the future that has ended: one object, where a closure would be five."""

    callback: Callable[[Any], object]
    around: Any

    def __call__(self, _: object) -> None:
        self.callback(self.around)


class FutureAround:
    """A wrapper around another future that ends when that future ends."""

    __slots__ = ("future",)

    #: The wrapped future.
    future: Future

    def exception(self, timeout: float | None = None) -> BaseException | None:
        """Waits for the end of the task; returns its exception."""
        return self.future.exception(timeout)

    def done(self) -> bool:
        """Returns whether the task has ended."""
        return self.future.done()

    def cancel(self) -> bool:
        """Cancels the task if the executor can; returns whether it did."""
        return self.future.cancel()

    def add_done_callback(self, callback: Callable[[Self], object]) -> None:
        """Calls ``callback`` with this future when the task has ended."""
        self.future.add_done_callback(_Callback(callback, self))


class TaskFuture(FutureAround, Generic[Result]):
    """The future of a task."""

    __slots__ = ("_arrived", "_noted", "number", "parents", "submitted")

    def __init__(
        self,
        number: int,
        parents: tuple[int, ...],
        arrived: Callable[[Any], Any],
        noted: Tally | None,
    ) -> None:
        self._arrived = arrived
        #: The tally of tasks that are not recorded yet; ``None`` if the task is not recorded.
        self._noted = noted
        #: The number of the task, counted from 0 in its engine.
        self.number = number
        #: The numbers of the tasks whose futures it was given.
        self.parents = parents
        #: The time of its submission, seconds since the epoch.
        self.submitted = time()

    def result(self, timeout: float | None = None) -> Result:
        """Waits for the task; returns its result or raises its exception."""
        value: Result = self._arrived(self.future.result(timeout))
        return value

    def add_done_callback(self, callback: Callable[[Self], object]) -> None:
        """Calls ``callback`` when the task has ended and, if the run has records, is recorded."""
        if self._noted is None or not self._noted.add_callback(self, callback):
            super().add_done_callback(callback)


class Stream(Iterator[TaskFuture[Result]]):
    """Tasks in the order in which they end, at a constant cost for each task.

    If there is only one task, the caller waits for its future directly: callbacks often run in another thread, which
    would be woken only to wake this one.
    """

    def __init__(self) -> None:
        self._ended: SimpleQueue[TaskFuture[Result]] = SimpleQueue()
        #: Number of tasks that come through the queue.
        self._queued = 0
        #: The only task, which does not come through the queue.
        self._only: TaskFuture[Result] | None = None

    def add(self, task: TaskFuture[Result]) -> None:
        """Adds a task to wait for."""
        if self._only is not None:
            self._queue(self._only)
            self._only = None
        if self._queued:
            self._queue(task)
        else:
            self._only = task

    def __next__(self) -> TaskFuture[Result]:
        if self._only is not None:
            task, self._only = self._only, None
            _wait_for(task.future)
            return task
        if not self._queued:
            raise StopIteration
        self._queued -= 1
        return self._ended.get()

    def _queue(self, task: TaskFuture[Result]) -> None:
        self._queued += 1
        task.add_done_callback(self._ended.put)


class Engine:
    """The tasks of one application on an executor."""

    def __init__(
        self,
        backend: Backend,
        *,
        workers: int = 1,
        filter: Filter | None = None,
        transformer: Transformer | None = None,
        records: Records | None = None,
        sizes: bool = False,
    ) -> None:
        self._backend = backend
        #: Number of workers of the executor.
        self.workers = workers
        self._records = records
        #: True if the records contain the sizes of results.
        self._sizes = sizes
        self._passage = Passage(filter, transformer) if transformer is not None else None
        self._arrived = value_of if self._passage is None else self._passage.arrive
        #: One wrapper for each function, so that executors that remember functions recognise it.
        self._calls: dict[Callable[..., Any], Call | Prepared] = {}
        self._tally = Tally()
        #: The tally that recorded tasks report to.
        self._noted = self._tally if records is not None else None
        #: The source of the first argument of tasks, if they share one.
        self._source: Source | None = None
        self._is_bare = records is None and transformer is None

    def submit(
        self, function: Callable[..., Result], /, *args: Any, **kwargs: Any
    ) -> TaskFuture[Result]:
        """Submits a call. Futures among the arguments stand for their results."""
        parents: tuple[int, ...] = ()
        for one in (*args, *kwargs.values()) if kwargs else args:
            if type(one) is TaskFuture:
                parents = _parents(args, kwargs)
                break
        tally = self._tally
        number = tally.submitted
        tally.submitted = number + 1
        task: TaskFuture[Result] = TaskFuture(number, parents, self._arrived, self._noted)
        if parents or self._passage is not None:
            args = tuple([self._sent(one) for one in args])
            kwargs = {name: self._sent(one) for name, one in kwargs.items()}
        if self._is_bare:
            task.future = self._backend.submit(function, *args, **kwargs)
            return task
        call = self._calls.get(function)
        if call is None:
            call = self._calls[function] = self._around(function)
        task.future = self._backend.submit(call, *args, **kwargs)
        if self._records is not None:
            tally.unnoted.add(number)
            task.future.add_done_callback(
                Noting(self._records, tally, call.__name__, number, parents, task.submitted)
            )
        return task

    def map(
        self, function: Callable[..., Result], /, *iterables: Iterable[Any]
    ) -> Iterator[Result]:
        """Submits a call for each item; returns the results in order."""
        tasks = [self.submit(function, *items) for items in zip(*iterables, strict=False)]
        return (task.result() for task in tasks)

    def stream(self, tasks: Iterable[TaskFuture[Result]]) -> Stream[Result]:
        """Returns tasks in the order in which they end; more tasks may be added meanwhile."""
        stream: Stream[Result] = Stream()
        for task in tasks:
            stream.add(task)
        return stream

    def within(
        self, setup: Callable[..., Any], /, *arguments: Any, reuse: Reuse = "memory"
    ) -> Engine:
        """Returns an engine whose tasks get the return value of ``setup(*arguments)`` as their first argument.

        With ``"memory"`` the setup runs once in each process that runs such tasks, or the executor does it in its own
        way, if it can. With ``"none"`` it runs for each task, which shows the cost of tasks that share nothing. Tasks
        of both engines may be given each other's futures, and are counted and recorded together. Setup and arguments
        have to be picklable, and small: some executors send them with each task. Tasks must not change the shared
        object.
        """
        inside = copy(self)
        inside._calls = {}
        inside._is_bare = False
        inside._source = Anew(setup, arguments)
        if reuse == "memory" and isinstance(self._backend, Keeper):
            inside._backend, inside._source = self._backend.within(setup, arguments)
        elif reuse == "memory":
            inside._source = Kept(setup, arguments)
        return inside

    @property
    def submitted(self) -> int:
        """The number of submitted tasks."""
        return self._tally.submitted

    def finish(self, seconds: float = 10.0) -> None:
        """Waits until the end of each task is recorded: some executors call back after they have delivered the result.

        Waits no longer than ``seconds``. Raises ``BenchError`` if some tasks could not be recorded.
        """
        end = monotonic() + seconds
        while self._tally.unnoted and monotonic() < end:
            sleep(0.001)
        if self._tally.lost:
            first = self._tally.lost[0]
            raise BenchError(
                f"{len(self._tally.lost)} of {self.submitted} tasks could not be noted:"
                f" {type(first).__name__}: {first}"
            ) from first

    def _sent(self, argument: Any) -> Any:
        if type(argument) is TaskFuture:
            return argument.future
        return argument if self._passage is None else self._passage.leave(argument)

    def _around(self, function: Callable[..., Any]) -> Call | Prepared:
        """Returns the callable that is sent instead of a function."""
        if self._source is None:
            return Call(function, self._passage, self._sizes)
        prepared = Prepared(function, self._source)
        is_bare = self._records is None and self._passage is None
        return prepared if is_bare else Call(prepared, self._passage, self._sizes)


def _parents(args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[int, ...]:
    """Returns the numbers of the tasks whose futures are among the arguments."""
    return tuple([one.number for one in (*args, *kwargs.values()) if type(one) is TaskFuture])


def _wait_for(future: Future) -> None:
    """Waits for the end of a task, whatever its outcome."""
    try:
        future.exception()
    except (KeyboardInterrupt, SystemExit):
        raise
    except BaseException:
        # Executors raise for cancelled tasks; some raise, like ``asyncio``, an exception that is no ``Exception``.
        if not future.done():
            raise
