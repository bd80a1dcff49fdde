"""Tasks of an application, on any executor, with what is to be done and noted around each of them.

An application submits functions and gets futures, which it may give to further tasks. Where nothing is recorded and
nothing transformed the executor gets the function itself: the engine must not hide what it measures. The parts are
those of TaPS (Pauloski et al., 2024, section III): executor, filter, transformer, records.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from copy import copy
from queue import SimpleQueue
from time import monotonic, sleep, time
from typing import Any, Generic, Self, TypeVar

import msgspec

from gristmill.bench.call import Call, Passage, value_of
from gristmill.bench.errors import BenchError
from gristmill.bench.interfaces import Backend, Filter, Future, Keeper, Records, Transformer
from gristmill.bench.noting import Noting, Tally
from gristmill.bench.within import Anew, Kept, Prepared, Reuse, Source

Result = TypeVar("Result")


class _Callback(msgspec.Struct):
    """Calls back with what stands around the future that has ended: one object, where a closure would be five."""

    callback: Callable[[Any], object]
    around: Any

    def __call__(self, _: object) -> None:
        self.callback(self.around)


class FutureAround:
    """What stands around another future, whose end is its own."""

    __slots__ = ("future",)

    #: The other one.
    future: Future

    def exception(self, timeout: float | None = None) -> BaseException | None:
        """Waits for its end; what it has raised."""
        return self.future.exception(timeout)

    def done(self) -> bool:
        """Whether it has ended."""
        return self.future.done()

    def cancel(self) -> bool:
        """Cancels it if the executor can; whether it did."""
        return self.future.cancel()

    def add_done_callback(self, callback: Callable[[Self], object]) -> None:
        """Calls that once it has ended."""
        self.future.add_done_callback(_Callback(callback, self))


class TaskFuture(FutureAround, Generic[Result]):
    """What a task will return."""

    __slots__ = ("_arrived", "_noted", "number", "parents", "submitted")

    def __init__(
        self,
        number: int,
        parents: tuple[int, ...],
        arrived: Callable[[Any], Any],
        noted: Tally | None,
    ) -> None:
        self._arrived = arrived
        #: Where it is one of those that are not noted yet, if it is to be noted.
        self._noted = noted
        #: Counts the tasks of an engine, from 0.
        self.number = number
        #: The numbers of the tasks whose futures it was given.
        self.parents = parents
        #: When it was submitted, seconds since the epoch.
        self.submitted = time()

    def result(self, timeout: float | None = None) -> Result:
        """Waits for what it returns; raises what it raises."""
        value: Result = self._arrived(self.future.result(timeout))
        return value

    def add_done_callback(self, callback: Callable[[Self], object]) -> None:
        """Calls that once it has ended, and that is noted if it is to be."""
        if self._noted is None or not self._noted.add_callback(self, callback):
            super().add_done_callback(callback)


class Stream(Iterator[TaskFuture[Result]]):
    """Tasks as they end, each for the same cost, however many there are.

    A task that is the only one is waited for itself: what is called back is often another thread, which would be woken
    only to wake this one.
    """

    def __init__(self) -> None:
        self._ended: SimpleQueue[TaskFuture[Result]] = SimpleQueue()
        #: Tasks that will be in the queue.
        self._queued = 0
        #: The only one, which will not be.
        self._only: TaskFuture[Result] | None = None

    def add(self, task: TaskFuture[Result]) -> None:
        """One more to wait for."""
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
    """Runs the tasks of one application on an executor."""

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
        #: How many workers the executor has.
        self.workers = workers
        self._records = records
        #: Whether the records have the sizes of results.
        self._sizes = sizes
        self._passage = Passage(filter, transformer) if transformer is not None else None
        self._arrived = value_of if self._passage is None else self._passage.arrive
        #: By function, so that executors that remember functions do.
        self._calls: dict[Callable[..., Any], Call | Prepared] = {}
        self._tally = Tally()
        #: What tasks are told of that are noted.
        self._noted = self._tally if records is not None else None
        #: What gives tasks their first argument, if they share one.
        self._source: Source | None = None
        self._is_bare = records is None and transformer is None

    def submit(
        self, function: Callable[..., Result], /, *args: Any, **kwargs: Any
    ) -> TaskFuture[Result]:
        """Submits a call. Futures among the arguments stand for what they return."""
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
        """Submits a call for each item; gives the results in order."""
        tasks = [self.submit(function, *items) for items in zip(*iterables, strict=False)]
        return (task.result() for task in tasks)

    def stream(self, tasks: Iterable[TaskFuture[Result]]) -> Stream[Result]:
        """Gives tasks as they end; further ones may be added meanwhile."""
        stream: Stream[Result] = Stream()
        for task in tasks:
            stream.add(task)
        return stream

    def within(
        self, setup: Callable[..., Any], /, *arguments: Any, reuse: Reuse = "memory"
    ) -> Engine:
        """An engine whose tasks get what ``setup(*arguments)`` returns as their first argument.

        With ``"memory"`` it is set up once in each process that runs such tasks, or as the executor does that, if it
        can; with ``"none"`` for each task, which is what tasks cost that share nothing. Tasks of both engines may be
        given each other's futures, and are counted and noted together. Setup and arguments have to be picklable, and
        small: some executors send them with each task. What is shared must not be changed.
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
        """How many tasks were submitted."""
        return self._tally.submitted

    def finish(self, seconds: float = 10.0) -> None:
        """Waits until the end of each task is noted: some executors tell of it after they have given the result.

        What has not ended by then is not waited for any longer. ``BenchError``: some could not be noted.
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
        """What is sent in the place of a function."""
        if self._source is None:
            return Call(function, self._passage, self._sizes)
        prepared = Prepared(function, self._source)
        is_bare = self._records is None and self._passage is None
        return prepared if is_bare else Call(prepared, self._passage, self._sizes)


def _parents(args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[int, ...]:
    """The numbers of the tasks whose futures are among arguments."""
    return tuple([one.number for one in (*args, *kwargs.values()) if type(one) is TaskFuture])


def _wait_for(future: Future) -> None:
    """Waits for the end of a task, whatever that is."""
    try:
        future.exception()
    except (KeyboardInterrupt, SystemExit):
        raise
    except BaseException:
        # Executors raise for what was cancelled, some what is no ``Exception``, as ``asyncio`` does.
        if not future.done():
            raise
