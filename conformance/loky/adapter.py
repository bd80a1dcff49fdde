"""Pytest plugin that makes loky's tests use our executor instead of loky's own and its reusable one.

Programs that the tests start import this module too (``beside/sitecustomize.py``).
"""

from __future__ import annotations

import traceback
import weakref
from concurrent.futures import CancelledError
from pickle import PicklingError, UnpicklingError
from typing import Any

import loky
import loky.process_executor
import loky.reusable_executor
from observed import ObservedExecutor, tell_errors_as

import gristmill

from file_event import Event

#: Options of loky's executor that ours does not have.
_NOT_OURS = ("job_reducers", "result_reducers", "timeout")
#: Start methods of loky that stand for our default.
_DEFAULT_STARTS = (None, "loky")


def _told(error: BaseException) -> BaseException:
    """Gives the error of a result that cannot be read a text as its cause, as loky does, instead of an exception."""
    cause = error.__cause__
    is_unread = isinstance(error, gristmill.RemoteError)
    if is_unread and cause is not None and not isinstance(cause, gristmill.RemoteTraceback):
        error.__cause__ = gristmill.RemoteTraceback("".join(traceback.format_exception(cause)))
    return error


class ProcessPoolExecutor(ObservedExecutor):
    """An executor that accepts the arguments of loky's executor."""

    not_sent = (gristmill.UnpicklableError, SystemExit)

    def __init__(self, max_workers: int | None = None, **options: Any) -> None:
        self._timeout = options.get("timeout")
        ours = {name: value for name, value in options.items() if name not in _NOT_OURS}
        ours["environment"] = ours.pop("env", None)
        context = ours.pop("context", None)
        start = (
            context if context is None or isinstance(context, str) else context.get_start_method()
        )
        if start not in _DEFAULT_STARTS:
            ours["start"] = start
        try:
            super().__init__(max_workers, **ours)
        except ValueError as error:
            # Loky's text is the first words of ours, which goes on with the value.
            text, is_of_workers, _ = str(error).partition(" and at most ")
            raise (ValueError(text) if is_of_workers else error) from None
        self._futures: weakref.WeakSet[Any] = weakref.WeakSet()

    def submit(self, /, *arguments: Any, **named: Any) -> Any:
        """Runs a call that ``shutdown`` may stop."""
        future = super().submit(*arguments, **named)
        self._futures.add(future)
        return future

    def map(
        self, fn: Any, *iterables: Any, timeout: Any = None, chunksize: int = 1, **_: Any
    ) -> Any:
        """Calls ``Executor.map``. Like loky's, it ignores other named arguments."""
        return super().map(fn, *iterables, timeout=timeout, chunksize=chunksize)

    def shutdown(self, wait: bool = True, kill_workers: bool = False, **options: Any) -> None:
        """Ends the executor. With ``kill_workers`` it also stops running tasks."""
        if kill_workers:
            for future in list(self._futures):
                future.cancel(running=True)
            super().shutdown(wait=False, cancel_futures=True)
        super().shutdown(wait=wait, **options)

    def _held(self, error: BaseException) -> BaseException:
        """Returns loky's error for an argument whose pickling ends the program; ours lets it end."""
        return PicklingError(repr(error)) if isinstance(error, SystemExit) else error

    @property
    def _flags(self) -> Flags:
        return Flags(self)


class Flags:
    """State of an executor, which it does not keep alive: one that was dropped is shut down."""

    def __init__(self, executor: ProcessPoolExecutor) -> None:
        self._executor = weakref.ref(executor)

    @property
    def shutdown(self) -> bool:
        """True once the executor takes no more tasks."""
        executor = self._executor()
        return executor is None or executor._is_shut_down

    @property
    def broken(self) -> bool | None:
        """True if the executor is broken, and ``None`` if it is not."""
        executor = self._executor()
        return (executor is not None and executor._is_broken()) or None


_Original = loky.reusable_executor._ReusablePoolExecutor


class ReusablePoolExecutor(ProcessPoolExecutor):
    """An executor that loky's own function ``get_reusable_executor`` reuses.

    Ours cannot be resized: another one takes its place, after loky has waited for its calls.
    """

    _resize = _Original._resize
    _wait_job_completion = _Original._wait_job_completion

    def __init__(self, *, executor_id: int, **options: Any) -> None:
        super().__init__(**options)
        self.executor_id = executor_id
        self.queue_size = self._max_workers

    @property
    def _pending_work_items(self) -> int:
        return self.stats().outstanding

    @classmethod
    def get_reusable_executor(
        cls, max_workers: int | None = None, reuse: str | bool = "auto", **options: Any
    ) -> tuple[Any, bool]:
        """Returns the executor of this thread, and whether it is the one of the call before."""
        storage = loky.reusable_executor._executor_storage
        known = storage.executor
        if max_workers is None and reuse is not True:
            max_workers = loky.cpu_count()
        if known is not None and max_workers not in (None, known._max_workers):
            if reuse is True:
                options |= storage.executor_kwargs
            if not (options.get("kill_workers") or known._flags.shutdown or known._flags.broken):
                known._wait_job_completion()
            reuse = False
        make = _Original.get_reusable_executor.__func__
        return make(cls, max_workers, reuse=reuse, **options)


#: Errors of a task whose argument or result cannot be read: loky breaks the pool instead
#: (docs/how-to/from-processpool.md).
_UNREADABLE = (gristmill.RemoteError, UnpicklingError, SystemExit, RuntimeError)

tell_errors_as(_told)
for module in (loky, loky.process_executor):
    module.ProcessPoolExecutor = ProcessPoolExecutor
loky.reusable_executor._ReusablePoolExecutor = ReusablePoolExecutor
_errors = loky.process_executor
_errors.TerminatedWorkerError = gristmill.WorkerLostError
_errors.BrokenProcessPool = _UNREADABLE
_errors._RemoteTraceback = gristmill.RemoteTraceback
# If an executor ends, its tasks are cancelled; later submits raise an error.
_errors.ShutdownExecutorError = (gristmill.ShutDownError, CancelledError)


def pytest_configure() -> None:
    """Replaces the parts of the tests that inspect loky's executor."""
    from tests import _executor_mixin, utils

    mixin = _executor_mixin.ExecutorMixin
    mixin.setup_class = classmethod(_give_event)
    mixin.teardown_method = _letting_go(mixin.teardown_method)
    # Our workers are children of a separate process, so the number of child processes differs.
    _executor_mixin._check_subprocesses_number = _nothing
    utils.filter_match = _said


def _give_event(_class: Any) -> None:
    from tests import _executor_mixin

    _executor_mixin._test_event = Event()


def _letting_go(teardown: Any) -> Any:
    """Returns a teardown that first sets the event: after a failed test tasks may still wait for it.

    It also stops the tasks of a test that leaves a broken pool behind, as ours is not.
    """

    def tear_down(self: Any, method: Any) -> None:
        from tests import _executor_mixin

        _executor_mixin._test_event.set()
        breaks = any(mark.name == "broken_pool" for mark in getattr(method, "pytestmark", ()))
        if breaks and self.executor is not None and not self.executor._flags.broken:
            self.executor.shutdown(kill_workers=True)
        try:
            teardown(self, method)
        finally:
            # A task may not have seen yet that the old one is set.
            _executor_mixin._test_event = Event()

    return tear_down


def _nothing(*_arguments: Any, **_named: Any) -> None:
    pass


def _said(match: str) -> str:
    """Returns the text that our error has where loky's error matches ``match``."""
    return match.replace("EXIT\\(", "exited with code ").replace("\\)", "")
