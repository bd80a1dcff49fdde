"""Pytest plugin that makes loky's tests use our executor instead of loky's own and its reusable one.

Programs that the tests start import this module too (``beside/sitecustomize.py``).
"""

from __future__ import annotations

import threading
import weakref
from concurrent.futures import CancelledError
from types import SimpleNamespace
from typing import Any

import loky
import loky.process_executor
import loky.reusable_executor

import gristmill

from file_event import Event

#: Options of loky's executor that ours names differently or does not have.
_NOT_OURS = ("job_reducers", "result_reducers", "timeout", "context", "env")


class ProcessPoolExecutor(gristmill.Executor):
    """An executor that accepts the arguments of loky's executor."""

    def __init__(self, max_workers: int | None = None, **options: Any) -> None:
        ours = {name: value for name, value in options.items() if name not in _NOT_OURS}
        ours["initargs"] = tuple(ours.get("initargs", ()))
        super().__init__(max_workers, **ours)
        self._futures: weakref.WeakSet[Any] = weakref.WeakSet()

    def submit(self, *arguments: Any, **named: Any) -> Any:
        """Runs a call that ``shutdown`` may stop."""
        future = super().submit(*arguments, **named)
        self._futures.add(future)
        return future

    def shutdown(self, wait: bool = True, kill_workers: bool = False, **options: Any) -> None:
        """Ends the executor. With ``kill_workers`` it also stops running tasks."""
        if kill_workers:
            for future in list(self._futures):
                future.cancel(running=True)
            super().shutdown(wait=False, cancel_futures=True)
        super().shutdown(wait=wait, **options)

    @property
    def _flags(self) -> Any:
        broken = self._is_broken() or None
        return SimpleNamespace(shutdown=self._is_shut_down, broken=broken)


class Reused:
    """One executor per thread, reused until a caller asks for other options."""

    def __init__(self) -> None:
        self._own = threading.local()

    def get(
        self,
        max_workers: int | None = None,
        kill_workers: bool = False,
        reuse: str | bool = "auto",
        **options: Any,
    ) -> tuple[ProcessPoolExecutor, bool]:
        """Returns the executor, and whether it is the previous one."""
        key = (max_workers, sorted(options.items(), key=lambda option: option[0]))
        executor, known = getattr(self._own, "executor", None), getattr(self._own, "key", None)
        if executor is not None and not executor._is_shut_down and not executor._is_broken():
            if reuse is True or (reuse == "auto" and key == known):
                return executor, True
            executor.shutdown(kill_workers=kill_workers)
        self._own.executor, self._own.key = ProcessPoolExecutor(max_workers, **options), key
        return self._own.executor, False


_reused = Reused()


def get_reusable_executor(*values: Any, **options: Any) -> ProcessPoolExecutor:
    """Replaces the function of this name in loky."""
    return _reused.get(*values, **options)[0]


class _ReusablePoolExecutor:
    get_reusable_executor = staticmethod(_reused.get)


for module in (loky, loky.process_executor):
    module.ProcessPoolExecutor = ProcessPoolExecutor
for module in (loky, loky.reusable_executor):
    module.get_reusable_executor = get_reusable_executor
loky.reusable_executor._ReusablePoolExecutor = _ReusablePoolExecutor
_errors = loky.process_executor
_errors.TerminatedWorkerError = gristmill.WorkerLostError
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
    """Returns a teardown that first sets the event: after a failed test tasks may still wait for it."""

    def tear_down(self: Any, method: Any) -> None:
        from tests import _executor_mixin

        _executor_mixin._test_event.set()
        try:
            teardown(self, method)
        finally:
            _executor_mixin._test_event.clear()

    return tear_down


def _nothing(*_arguments: Any, **_named: Any) -> None:
    pass


def _said(match: str) -> str:
    """Returns the text that our error has where loky's error matches ``match``."""
    return match.replace("EXIT\\(", "exited with code ").replace("\\)", "")
