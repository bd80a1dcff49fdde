"""TaskVine: its futures executor, with workers of this machine that its factory starts.

Written after its sources (cctools, August 2026), and not run: TaskVine comes by conda only.

Its manager belongs to one thread, moves only while that waits for it, and calls back only whoever asks for a result. So
a thread here does all of that, for futures that are as others are.
"""

from __future__ import annotations

import importlib
import os
import socket
import sys
import threading
from collections.abc import Callable
from concurrent.futures import Executor, Future
from importlib.util import find_spec
from queue import Empty, SimpleQueue
from typing import Any, ClassVar

from gristmill.bench.dependencies import AfterParents
from gristmill.bench.executors.base import ExecutorPlugin, put_first
from gristmill.bench.interfaces import Backend

#: Its manager waits for whole seconds; it comes back as soon as a task has ended.
_TURN_S = 1


class TaskVine(ExecutorPlugin):
    """``ndcctools.taskvine``: its futures executor, with local workers of one core each; by conda only."""

    without_groups: ClassVar[str] = "each of its tasks is a new process"

    #: The port of its manager; any free one if it is 0.
    port: int = 0

    @classmethod
    def missing(cls) -> str | None:
        """Why it cannot be used on this machine: it is in no registry of pip's, nor known to pip where conda put it."""
        return None if find_spec("ndcctools") else "conda install -c conda-forge ndcctools"

    def open(self) -> Backend:
        """Starts manager and factory, and so the workers."""
        return AfterParents(_Vine(self.workers, self.port))


class _Boxed:
    """What a task returns: TaskVine compares results with a word, which some of them, as arrays, do not take."""

    def __init__(self, value: Any, error: Exception | None) -> None:
        self.value = value
        self.error = error


def _box(function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> _Boxed:
    try:
        return _Boxed(function(*args, **kwargs), None)
    except Exception as error:
        return _Boxed(None, error)


class _Vine(Executor):
    """TaskVine's executor, in a thread of its own."""

    def __init__(self, workers: int, port: int) -> None:
        self._calls: SimpleQueue[tuple[Future[Any], Any] | None] = SimpleQueue()
        self._is_over = False
        ready: Future[None] = Future()
        self._thread = threading.Thread(target=self._serve, args=(workers, port, ready))
        self._thread.start()
        ready.result()

    def submit(self, function: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        """Has the thread submit it."""
        future: Future[Any] = Future()
        # What was handed over is not taken back.
        future.set_running_or_notify_cancel()
        self._calls.put((future, (function, args, kwargs)))
        return future

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """Ends when all tasks have."""
        self._calls.put(None)
        if wait:
            self._thread.join()

    def _serve(self, workers: int, port: int, ready: Future[None]) -> None:
        try:
            vine = _started(workers, port or _free_port())
        except BaseException as error:
            ready.set_exception(error)
            return
        ready.set_result(None)
        open_tasks: dict[int, Future[Any]] = {}
        try:
            while self._submit_all(vine, open_tasks) or open_tasks:
                task = vine.manager.wait(_TURN_S)
                if task is not None:
                    _complete(open_tasks[task.id], task)
                    del open_tasks[task.id]
        except Exception as error:
            for future in open_tasks.values():
                future.set_exception(error)
            while not self._is_over:
                handed = self._calls.get()
                if handed is None:
                    break
                handed[0].set_exception(error)
        finally:
            vine.factory.stop()

    def _submit_all(self, vine: Any, open_tasks: dict[int, Future[Any]]) -> bool:
        """Submits what was handed over; waits for it if there is nothing else to do. Whether more may come."""
        while not self._is_over:
            try:
                handed = self._calls.get(block=not open_tasks)
            except Empty:
                break
            if handed is None:
                self._is_over = True
                break
            future, call = handed
            try:
                task = vine.future_task(_box, *call)
                vine.submit(task)
            except Exception as error:
                future.set_exception(error)
                continue
            open_tasks[task.id] = future
        return not self._is_over


def _started(workers: int, port: int) -> Any:
    """Its executor, with a factory that keeps so many workers on this machine."""
    # Workers run what is called python3.
    put_first("PATH", os.path.dirname(sys.executable))
    vine = importlib.import_module("ndcctools.taskvine")
    return vine.FuturesExecutor(
        port=port,
        batch_type="local",
        manager_host_port=f"localhost:{port}",
        opts={"min-workers": workers, "max-workers": workers, "cores": 1},
    )


def _free_port() -> int:
    """A port that is free now: its factory has to be told one before its manager is there."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        number: int = server.getsockname()[1]
    return number


def _complete(future: Future[Any], task: Any) -> None:
    """Tells what a task has come to."""
    # Its future would wait for the task by itself, and the manager gives each task once.
    task._has_retrieved = True
    found = task.output()
    if not isinstance(found, _Boxed):
        lost = found if isinstance(found, Exception) else RuntimeError(f"TaskVine gave {found!r}")
        future.set_exception(lost)
    elif found.error is not None:
        future.set_exception(found.error)
    else:
        future.set_result(found.value)
