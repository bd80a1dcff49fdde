"""Replacement of the process pools in CPython's tests of ``concurrent.futures`` by our executor."""

from __future__ import annotations

import concurrent.futures
import concurrent.futures.process
import contextlib
import functools
import importlib
import multiprocessing
import os
import pickle
import time
from collections.abc import Iterator
from typing import Any

from observed import ObservedExecutor

import gristmill

#: Errors of a task whose worker dies, or whose argument or result cannot be read: a pool of the standard library breaks
#: (docs/how-to/from-processpool.md).
BROKEN = (gristmill.WorkerLostError, gristmill.RemoteError, pickle.UnpicklingError, SystemExit)
_START = "from concurrent.futures import PoolExecutor"
_OURS = "from adapter import PoolExecutor"


class PoolExecutor(ObservedExecutor):
    """An executor that accepts the arguments of ``ProcessPoolExecutor`` in these tests."""

    def __init__(
        self, max_workers: int | None = None, mp_context: Any = None, **options: Any
    ) -> None:
        if mp_context is not None and mp_context.get_start_method() == "spawn":
            options["start"] = "spawn"
        super().__init__(max_workers, **options)

    def submit(self, /, *arguments: Any, **named: Any) -> Any:
        """Submits a call. Raises the standard library's error after the end, of which ours is a subclass."""
        try:
            return super().submit(*arguments, **named)
        except gristmill.ShutDownError as error:
            raise RuntimeError(*error.args) from None

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """Ends the executor. Where the rest is cancelled, a first task has ended.

        Workers of the standard library have taken tasks by then; ours may not have started.
        """
        while cancel_futures and self.stats().outstanding and not self.stats().succeeded:
            time.sleep(_PAUSE_S)
        super().shutdown(wait, cancel_futures=cancel_futures)

    @property
    def _broken(self) -> bool:
        return self._is_broken()


class Futures:
    """The module ``concurrent.futures`` with our executor in the place of its pool of processes."""

    process = concurrent.futures.process
    ProcessPoolExecutor = functools.partial(PoolExecutor)

    def __getattr__(self, name: str) -> Any:
        return getattr(concurrent.futures, name)


class Context:
    """Context of ``multiprocessing`` whose queues and semaphores can be sent to any process."""

    def __init__(self, method: str) -> None:
        self._context = multiprocessing.get_context(method)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._context, name)

    def Queue(self) -> Any:
        """Returns a queue of a manager."""
        return _manager().Queue()

    def Semaphore(self, value: int = 1) -> Any:
        """Returns a semaphore of a manager."""
        made = _manager().Semaphore(value)
        _semaphores.append(made)
        return made


_PAUSE_S = 0.01
#: Semaphores of the running test.
_semaphores: list[Any] = []
#: More than the tasks of a test that wait for one semaphore.
_WAITING_MAX = 100


@functools.cache
def _manager() -> Any:
    return multiprocessing.Manager()


def executor_mixin() -> Any:
    """Returns CPython's ``ExecutorMixin``, which makes an executor for each test and ends it."""
    package = importlib.import_module("test.test_concurrent_futures")
    module = (
        importlib.import_module("test.test_concurrent_futures.util")
        if hasattr(package, "__path__")
        else package
    )
    return module.ExecutorMixin


class ForkMixin:
    """Workers that are forked from a zygote."""

    executor_type = PoolExecutor
    ctx = "fork"

    def get_context(self) -> Any:
        """Returns the ``multiprocessing`` context from which the tests make queues and managers."""
        return Context(self.ctx)

    def tearDown(self) -> None:
        """Lets tasks end that a failed test left waiting, for the executor waits for them."""
        while _semaphores:
            semaphore = _semaphores.pop()
            for _ in range(_WAITING_MAX):
                semaphore.release()
        super().tearDown()  # type: ignore[misc]

    @contextlib.contextmanager
    def _assert_logged(self, _text: str) -> Iterator[None]:
        # An exception of an initializer comes with the error of each task, not in a log.
        yield


class SpawnMixin(ForkMixin):
    """Workers that are interpreters of their own."""

    ctx = "spawn"


def assert_python_ok(*arguments: str, **environment: str) -> Any:
    """Runs a program with our executor, like the function of this name in ``test.support``."""
    from test.support import script_helper

    *options, program = arguments
    # One program uses a module that it does not import; with process pools CPython skips that test.
    program = "import multiprocessing\n" + program.replace(_START, _OURS)
    # Without a variable of its own the program would ignore PYTHONPATH.
    path = {"PYTHONPATH": os.environ["PYTHONPATH"], "__isolated": False}
    return script_helper.assert_python_ok(*options, program, **path, **environment)
