"""Delivery of final tasks to waiters of ``concurrent.futures`` and to callbacks.

A waiter of the standard library gets an event whose ``wait`` completes tasks of one executor in the waiting thread, so
no other thread has to wake. If its futures belong to several executors, the event serves the first one's. The
dispatcher thread of each executor serves its other futures, every other kind of waiter, and every callback. ``submit``
never runs callbacks.
"""

from __future__ import annotations

import concurrent.futures
import contextlib
import logging
import threading
import weakref
from collections import deque
from collections.abc import Callable, Iterable
from concurrent.futures import _base
from typing import Any

from gristmill import _forked, _green_threads, _native
from gristmill._condition import CONDITION, FINAL
from gristmill._weak import WeakBag

_log = logging.getLogger("gristmill")
#: Failures in a row after which a dispatcher has no engine any more.
_FAILURES_MAX = 100

_OWN_WAITERS = (_base._FirstCompletedWaiter, _base._AllCompletedWaiter, _base._AsCompletedWaiter)
#: Function that takes final tasks and returns those that it leaves to others. It raises nothing.
Sink = Callable[[list[int]], list[int]]
#: Function that calls a callback with its future.
Run = Callable[[Callable[[Any], object], Any], object]
_Dispatcher = threading.Thread | _green_threads.Thread


def _run(callback: Callable[[Any], object], future: Any) -> object:
    return callback(future)


class Event:
    """Replacement for a waiter's ``threading.Event``: the waiting thread completes tasks of one executor."""

    def __init__(self, registry: Registry) -> None:
        self._registry = registry
        self._is_set = False
        self._successor: Any = None
        #: Tasks, final ones included, whose futures the waiter was added to here. The list saves a search through all
        #: others.
        self.tasks: list[int] = []

    def is_set(self) -> bool:
        """Returns whether the waiter has what it waits for."""
        return self._is_set

    def set(self) -> None:
        """Ends the wait."""
        self._is_set = True
        self._registry.engine._kick()
        if self._successor is not None:
            self._successor.set()

    def clear(self) -> None:
        """Resets the event."""
        self._is_set = False

    def wait(self, timeout: float | None = None) -> bool:
        """Completes tasks until the waiter has what it waits for."""
        if not _green_threads.are_used():
            return self._registry.serve_waiters(self, timeout)
        return _green_threads.wait_until(lambda: self._registry.serve_waiters(self, 0), timeout)

    def give_way(self, waiter: Any, successor: Any) -> None:
        """Replaces this event by ``successor``. The dispatcher then serves the futures of this event."""
        # A thread that has read the waiter's event before this line sets the new event through this one.
        self._successor = successor
        waiter.event = successor
        if self._is_set:
            successor.set()
        self._registry.dispatch_for(waiter, self.tasks)


class Waiters:
    """The ``_waiters`` of one future."""

    def __init__(self, registry: Registry, future: _native.Future[Any]) -> None:
        self._registry = registry
        self._future = future

    def append(self, waiter: Any) -> None:
        """Registers ``waiter`` for the future, unless this thread saw the future final under the condition it holds."""
        self._registry.add_waiter(self._future, waiter)

    def remove(self, waiter: Any) -> None:
        """Removes ``waiter``."""
        self._registry.remove_waiter(self._future, waiter)


class _Watch:
    __slots__ = ("callbacks", "future", "waiters")

    def __init__(self, future: _native.Future[Any]) -> None:
        self.future = future
        #: Waiters in the order in which they came. Removing one takes constant time, however many there are.
        self.waiters: dict[Any, None] = {}
        self.callbacks: list[Callable[[Any], object]] = []


#: Registries whose callbacks the end of the program waits for, even if no reference to their executors is left.
_dispatching: WeakBag[Registry] = WeakBag()


def join_all() -> None:
    """Waits until every callback of every executor has run. Call it after all engines have ended."""
    for registry in _dispatching:
        registry.join()


class Registry:
    """Waiters and callbacks by future, for one engine.

    Two threads may each make a registry for one engine. The engine keeps the first and gives it to both.
    """

    #: The thread that calls callbacks, once it has started.
    _dispatcher: _Dispatcher | None = None

    def __init__(self, engine: _native.Engine) -> None:
        self._engine = weakref.ref(engine)
        self.condition = CONDITION
        #: Guards the watches. Signal handlers and destructors run at any call and may wait for futures. So a thread may
        #: take the lock again, and only statements without a call change what it guards.
        self._lock = _green_threads.of_system().RLock()
        #: The first callback of each future, by its task: nearly all futures have one callback and no waiter. Each use
        #: is one operation of the dict, so it needs no lock.
        self._first: dict[int, tuple[_native.Future[Any], Callable[[Any], object]]] = {}
        self._sink: Sink | None = None
        #: Waiters and further callbacks, by task.
        self._watches: dict[int, _Watch] = {}

    def join(self) -> None:
        """Waits until every callback has run. Call it after the engine has ended."""
        dispatcher = self._dispatcher
        if dispatcher is not None and not _is_current(dispatcher):
            dispatcher.join()

    @property
    def engine(self) -> _native.Engine:
        """The engine; it outlives every future."""
        engine = self._engine()
        assert engine is not None, "a future keeps its engine alive"
        return engine

    def add_waiter(self, future: _native.Future[Any], waiter: Any) -> None:
        """Registers a waiter of ``concurrent.futures``. The caller holds the condition."""
        if CONDITION.state(future) in FINAL:
            return
        is_served = self._is_served_by_waiting(waiter)
        task, fresh = future._task, _Watch(future)
        with self._lock:
            if task not in self._watches:
                self._watches[task] = fresh
            self._watches[task].waiters[waiter] = None
        if is_served:
            waiter.event.tasks.append(task)
            if not self.engine._watch(future, False):
                self._complete_waiters(future)
        else:
            self._dispatch(future)

    def _is_served_by_waiting(self, waiter: Any) -> bool:
        """Returns whether the waiting thread completes this engine's tasks. It can do so for one engine only."""
        if type(waiter) not in _OWN_WAITERS:
            return False
        event = waiter.event
        if type(event) is threading.Event:
            waiter.event = Event(self)
            if event.is_set():
                waiter.event.set()
            return True
        return type(event) is Event and event._registry is self

    def _dispatch(self, future: _native.Future[Any]) -> None:
        """Makes the dispatcher complete what is registered for a future."""
        if self._dispatcher is None:
            self._start_dispatcher()
        # A thread that registers something for a final task completes it: the dispatcher may have passed already.
        if not self.engine._watch(future, True):
            self._complete(future._task)

    def dispatch_for(self, waiter: Any, tasks: list[int]) -> None:
        """Makes the dispatcher serve a waiter of these tasks, whose thread no longer completes tasks of this engine."""
        for watch in [self._watches.get(task) for task in tasks]:
            if watch is not None and waiter in watch.waiters:
                self._dispatch(watch.future)

    def remove_waiter(self, future: _native.Future[Any], waiter: Any) -> None:
        """Removes a waiter. Does nothing if it is unknown."""
        task = future._task
        with self._lock:
            if task not in self._watches:
                return
            watch = self._watches[task]
            if waiter in watch.waiters:
                del watch.waiters[waiter]
            if not watch.waiters and not watch.callbacks:
                del self._watches[task]

    def add_callback(self, future: _native.Future[Any], callback: Callable[[Any], object]) -> None:
        """Calls ``callback(future)`` when the future is final: from the dispatcher thread, or at once if it is."""
        task, call = future._task, (future, callback)
        if self._first.setdefault(task, call) is not call:
            fresh, callbacks = _Watch(future), [callback]
            with self._lock:
                if task not in self._watches:
                    self._watches[task] = fresh
                self._watches[task].callbacks += callbacks
        self._dispatch(future)

    def gather(self, sink: Sink) -> None:
        """Makes the dispatcher thread pass final tasks to ``sink`` first, as many as there are at a time."""
        self._sink = sink
        if self._dispatcher is None:
            self._start_dispatcher()

    def serve_waiters(self, event: Event, timeout: float | None) -> bool:
        """Completes tasks in this thread until ``event`` is set or ``timeout`` seconds have passed."""
        return self.engine._serve(event, self._complete_waiters_of, timeout)

    def _complete_waiters_of(self, task: int) -> None:
        watch = self._watches.get(task)
        if watch is not None:
            self._complete_waiters(watch.future)

    def _complete_waiters(self, future: _native.Future[Any]) -> None:
        task, empty = future._task, dict[Any, None]()
        with self._lock:
            if task not in self._watches:
                return
            watch = self._watches[task]
            waiters, watch.waiters = watch.waiters, empty
            if not watch.callbacks:
                del self._watches[task]
        for waiter in waiters:
            _notify(waiter, future)

    def complete(self, tasks: list[int]) -> None:
        """Runs what is registered for final tasks. The dispatcher calls this."""
        if self._sink is not None:
            tasks = self._sink(tasks)
        left = deque(tasks)
        while left:
            try:
                while left:
                    # A child that a callback forks would go on as this thread and run the other callbacks again.
                    self._complete(left.popleft(), _forked.guarded)
            except (
                BaseException
            ):  # SystemExit of a callback, or what was raised in this thread from outside
                _report("exception in a callback, or among the waiters of a task")

    def _complete(self, task: int, run: Run = _run) -> None:
        """Runs what is registered for a final task, each callback by ``run``.

        A callback that raises does not stop the others. An exception that is no ``Exception`` is raised after all have
        run.
        """
        raised: BaseException | None = None
        first = self._first.pop(task, None)
        if first is not None:
            raised = _call(*first, run)
        if self._watches:
            with self._lock:
                watch = self._watches.pop(task, None)
            if watch is not None:
                for waiter in watch.waiters:
                    _notify(waiter, watch.future)
                for callback in watch.callbacks:
                    raised = _call(watch.future, callback, run) or raised
        if raised is not None:
            raise raised

    def _start_dispatcher(self) -> None:
        """Starts a dispatcher. If another thread or a signal handler starts one too, one of the two ends at once."""
        engine = self._engine
        dispatcher: _Dispatcher

        def dispatch() -> None:
            _dispatch(engine, self, dispatcher)

        if _green_threads.are_used():
            dispatcher = _green_threads.Thread(dispatch)
        else:
            dispatcher = threading.Thread(target=dispatch, name="gristmill-dispatcher", daemon=True)
        _dispatching.add(self)
        dispatcher.start()
        self._claim_dispatch(dispatcher)

    def _claim_dispatch(self, thread: _Dispatcher) -> bool:
        """Makes a thread the dispatcher if there is none, and returns whether it is the dispatcher.

        The thread itself calls this too, because a signal handler may raise in the thread that started it.
        """
        return self.__dict__.setdefault("_dispatcher", thread) is thread


def _is_current(thread: _Dispatcher) -> bool:
    if isinstance(thread, _green_threads.Thread):
        return thread.is_current()
    return thread is threading.current_thread()


def _dispatch(engine: weakref.ref[_native.Engine], registry: Registry, thread: _Dispatcher) -> None:
    """Runs callbacks until the engine is gone or has shut down, in this thread."""
    if not registry._claim_dispatch(thread):
        return
    failures = 0
    while failures < _FAILURES_MAX:
        try:
            living = engine()
            tasks = None if living is None else living._next_callbacks(0.5)
            del living
            if tasks is None:
                return
            registry.complete(tasks)
            failures = 0
        except BaseException:  # raised in this thread from outside, or by a trace function
            failures += 1
            with contextlib.suppress(BaseException):
                _report("exception in the thread that calls callbacks")


def _call(
    future: _native.Future[Any], callback: Callable[[Any], object], run: Run
) -> BaseException | None:
    """Calls a callback and logs an ``Exception`` that it raises. Returns any other exception."""
    try:
        if getattr(callback, "__module__", None) == "asyncio.futures" and future._failed():
            run(callback, _Awaited(future))
        else:
            run(callback, future)
    except Exception:
        _report("exception calling callback for %r", future)
    except BaseException as error:
        return error
    return None


def _report(text: str, *values: object) -> None:
    """Logs the exception being handled. Ignores exceptions of logging itself, because other callbacks wait."""
    with contextlib.suppress(Exception):
        _log.exception(text, *values)


class _Awaited:
    """A failed future in a form that ``asyncio`` can copy: an ``asyncio`` future cannot hold a ``StopIteration``."""

    def __init__(self, future: _native.Future[Any]) -> None:
        self._future = future

    def __getattr__(self, name: str) -> Any:
        return getattr(self._future, name)

    def exception(self) -> BaseException | None:
        """Returns what the task raised; for a ``StopIteration`` a ``RuntimeError`` caused by it, as generators do."""
        error: BaseException | None = self._future.exception()
        if not isinstance(error, StopIteration):
            return error
        wrapped = RuntimeError("a task that is awaited raised StopIteration")
        wrapped.__cause__ = error
        return wrapped


def _notify(waiter: Any, future: _native.Future[Any]) -> None:
    if future.cancelled():
        waiter.add_cancelled(future)
    elif future._failed():
        waiter.add_exception(future)
    else:
        waiter.add_result(future)


def wait_any(
    futures: Iterable[concurrent.futures.Future[Any]], timeout: float | None = None
) -> concurrent.futures.Future[Any]:
    """Implements ``gristmill.wait_any`` for any futures, also those of other libraries."""
    waiting = list(futures)
    if not waiting:
        raise ValueError("wait_any needs at least one future")
    for future in waiting:
        if not isinstance(future, concurrent.futures.Future):
            raise TypeError(f"wait_any takes futures, not {type(future).__name__}")
    done, _ = concurrent.futures.wait(waiting, timeout, concurrent.futures.FIRST_COMPLETED)
    for future in waiting:
        if future in done:
            return future
    raise TimeoutError
