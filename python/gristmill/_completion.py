"""What happens when a task is final and Python wants to know: waiters of ``concurrent.futures`` and callbacks.

The engine completes tasks without the interpreter, so the standard library's ``wait`` and ``as_completed`` must not see
a future's state change while they hold its condition: they read it several times. The condition here (one for all
futures of an executor) keeps each state that was read under it until it is released.

Waiters of the standard library get an event whose ``wait`` completes tasks by itself, so that no other thread has to be
woken; anything else, and every callback, is served by one dispatcher thread. ``submit`` never runs callbacks.
"""

from __future__ import annotations

import logging
import threading
import weakref
from collections.abc import Callable
from concurrent.futures import _base
from typing import Any

from gristmill import _native

_log = logging.getLogger("gristmill")

_OWN_WAITERS = (_base._FirstCompletedWaiter, _base._AllCompletedWaiter, _base._AsCompletedWaiter)
#: Takes tasks that are final, and gives back those that it is not to have; it raises nothing.
Sink = Callable[[list[int]], list[int]]
_FINAL = (_base.CANCELLED_AND_NOTIFIED, _base.FINISHED)


class Condition:
    """The condition of all futures of one executor: a re-entrant lock under which no state changes."""

    def __init__(self) -> None:
        self._lock = threading.RLock()
        self._depth = 0
        self._seen: dict[int, str] = {}

    def acquire(self, blocking: bool = True, timeout: float = -1) -> bool:
        """Takes the lock, as ``threading.RLock``."""
        taken = self._lock.acquire(blocking, timeout)
        self._depth += taken
        return taken

    def release(self) -> None:
        """Gives it back; the last release lets states change again."""
        if self._depth == 1:
            self._seen.clear()
        self._depth -= 1
        self._lock.release()

    def __enter__(self) -> bool:
        return self.acquire()

    def __exit__(self, *_: object) -> None:
        self.release()

    def state(self, future: _native.Future[Any]) -> str:
        """The future's state: the one that was read first, while the lock is held."""
        if not self._depth:
            return future._current_state()
        return self._seen.setdefault(id(future), future._current_state())


class Event:
    """Stands in for a waiter's ``threading.Event``: waiting completes tasks in the waiting thread."""

    def __init__(self, registry: Registry) -> None:
        self._registry = registry
        self._is_set = False

    def is_set(self) -> bool:
        """Whether the waiter has what it waits for."""
        return self._is_set

    def set(self) -> None:
        """Ends the wait."""
        self._is_set = True
        self._registry.engine._kick()

    def clear(self) -> None:
        """Starts over."""
        self._is_set = False

    def wait(self, timeout: float | None = None) -> bool:
        """Completes tasks until the waiter has what it waits for."""
        return self._registry.serve_waiters(self, timeout)


class Waiters:
    """The ``_waiters`` of one future."""

    def __init__(self, registry: Registry, future: _native.Future[Any]) -> None:
        self._registry = registry
        self._future = future

    def append(self, waiter: Any) -> None:
        """Lets ``waiter`` know when the future is final, unless it was seen so under this very lock."""
        self._registry.add_waiter(self._future, waiter)

    def remove(self, waiter: Any) -> None:
        """Forgets ``waiter``."""
        self._registry.remove_waiter(self._future, waiter)


class _Watch:
    __slots__ = ("callbacks", "future", "waiters")

    def __init__(self, future: _native.Future[Any]) -> None:
        self.future = future
        self.waiters: list[Any] = []
        self.callbacks: list[Callable[[Any], object]] = []


#: Those whose callbacks the program's end waits for, even if nobody holds their executors any more.
_dispatching: weakref.WeakSet[Registry] = weakref.WeakSet()


def join_all() -> None:
    """Waits until every callback of every executor has run; all engines have ended."""
    for registry in list(_dispatching):
        registry.join()


class Registry:
    """Who wants to know of which future of one engine."""

    def __init__(self, engine: _native.Engine) -> None:
        self._engine = weakref.ref(engine)
        self.condition = Condition()
        self._lock = threading.Lock()
        #: The first callback of each future, by its task: nearly all have one and no waiter. Each use is one operation
        #: of the dict, so that it needs no lock.
        self._first: dict[int, tuple[_native.Future[Any], Callable[[Any], object]]] = {}
        self._sink: Sink | None = None
        #: All others.
        self._watches: dict[int, _Watch] = {}
        self._dispatcher: threading.Thread | None = None
        engine._registry = self

    def join(self) -> None:
        """Waits until every callback has run; the engine has ended."""
        dispatcher = self._dispatcher
        if dispatcher is not None and dispatcher is not threading.current_thread():
            dispatcher.join()

    @property
    def engine(self) -> _native.Engine:
        """The engine; it outlives every future."""
        engine = self._engine()
        assert engine is not None, "a future keeps its engine alive"
        return engine

    def add_waiter(self, future: _native.Future[Any], waiter: Any) -> None:
        """Registers a waiter of ``concurrent.futures``; called under the condition."""
        seen = self.condition.state(future) in _FINAL
        if seen:
            return
        is_own = type(waiter) in _OWN_WAITERS
        if is_own and not isinstance(waiter.event, Event):
            waiter.event = Event(self)
        if is_own:
            with self._lock:
                self._watch(future).waiters.append(waiter)
            if not self.engine._watch(future, False):
                self._complete_waiters(future)
        else:
            self.add_callback(future, lambda done: _notify(waiter, done))

    def remove_waiter(self, future: _native.Future[Any], waiter: Any) -> None:
        """Forgets a waiter; unknown ones are fine."""
        with self._lock:
            watch = self._watches.get(future._task)
            if watch is None:
                return
            if waiter in watch.waiters:
                watch.waiters.remove(waiter)
            if not watch.waiters and not watch.callbacks:
                del self._watches[future._task]

    def add_callback(self, future: _native.Future[Any], callback: Callable[[Any], object]) -> None:
        """Calls ``callback(future)`` when it is final: from the dispatcher thread, or now if it is."""
        task, call = future._task, (future, callback)
        if self._first.setdefault(task, call) is not call:
            with self._lock:
                self._watch(future).callbacks.append(callback)
        if self._dispatcher is None:
            self._start_dispatcher()
        # Who adds something and then learns that the task is final completes it: the dispatcher may have been here.
        if not self.engine._watch(future, True):
            self._complete(task)

    def gather(self, sink: Sink) -> None:
        """Has ``sink`` take final tasks first, from the dispatcher thread, as many as there are at a time."""
        self._sink = sink
        if self._dispatcher is None:
            self._start_dispatcher()

    def serve_waiters(self, event: Event, timeout: float | None) -> bool:
        """Completes tasks in this thread until ``event`` is set or ``timeout`` seconds have passed."""
        return self.engine._serve(event, self._complete_waiters_of, timeout)

    def _watch(self, future: _native.Future[Any]) -> _Watch:
        watch = self._watches.get(future._task)
        if watch is None:
            watch = self._watches[future._task] = _Watch(future)
        return watch

    def _complete_waiters_of(self, task: int) -> None:
        watch = self._watches.get(task)
        if watch is not None:
            self._complete_waiters(watch.future)

    def _complete_waiters(self, future: _native.Future[Any]) -> None:
        with self._lock:
            watch = self._watches.get(future._task)
            if watch is None:
                return
            waiters, watch.waiters = watch.waiters, []
            if not watch.callbacks:
                del self._watches[future._task]
        for waiter in waiters:
            _notify(waiter, future)

    def complete(self, tasks: list[int]) -> None:
        """Runs what is registered for final tasks; for the dispatcher."""
        if self._sink is not None:
            tasks = self._sink(tasks)
        for task in tasks:
            self._complete(task)

    def _complete(self, task: int) -> None:
        """Runs what is registered for a final task."""
        first = self._first.pop(task, None)
        if first is not None:
            _call(*first)
        if not self._watches:
            return
        with self._lock:
            watch = self._watches.pop(task, None)
        if watch is None:
            return
        for waiter in watch.waiters:
            _notify(waiter, watch.future)
        for callback in watch.callbacks:
            _call(watch.future, callback)

    def _start_dispatcher(self) -> None:
        with self._lock:
            if self._dispatcher is not None:
                return
            name = "gristmill-dispatcher"
            self._dispatcher = threading.Thread(
                target=_dispatch, args=(self._engine, self), name=name, daemon=True
            )
            _dispatching.add(self)
            self._dispatcher.start()


def _dispatch(engine: weakref.ref[_native.Engine], registry: Registry) -> None:
    """Runs callbacks until the engine is gone or has shut down."""
    while True:
        living = engine()
        tasks = None if living is None else living._next_callbacks(0.5)
        del living
        if tasks is None:
            return
        registry.complete(tasks)


def _call(future: _native.Future[Any], callback: Callable[[Any], object]) -> None:
    try:
        callback(future)
    except Exception:
        _log.exception("exception calling callback for %r", future)


def _notify(waiter: Any, future: _native.Future[Any]) -> None:
    if future.cancelled():
        waiter.add_cancelled(future)
    elif future._failed():
        waiter.add_exception(future)
    else:
        waiter.add_result(future)
