"""Executor for the adapters: its workers can be observed, and its futures hold the errors that another pool's hold."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future
from typing import Any

from worker_processes import ManagerThread, Processes

import gristmill


def tell_errors_as(told: Callable[[BaseException], BaseException]) -> None:
    """Makes the futures of this process raise what ``told`` returns for their errors, as those of another pool do."""
    own = gristmill.Future.result

    def result(self: Any, timeout: float | None = None) -> Any:
        try:
            return own(self, timeout)
        except BaseException as error:
            other = told(error)
            if other is error:
                raise
            raise other from other.__cause__

    gristmill.Future.result = result  # type: ignore[method-assign]


class ObservedExecutor(gristmill.Executor):
    """Our executor with names that a pool of the standard library has for its processes and its thread.

    :cvar not_sent: exceptions of ``submit`` that the future of the call holds instead.

    A call with an argument that cannot be pickled returns a future with our error, where ``submit`` of our executor
    raises it. Tests that need this are about what comes after the error; docs/how-to/from-processpool.md has the
    difference.
    """

    not_sent: tuple[type[BaseException], ...] = (gristmill.UnpicklableError,)

    def __init__(
        self,
        max_workers: int | None = None,
        initializer: Any = None,
        initargs: tuple[Any, ...] = (),
        *,
        environment: dict[str, str] | None = None,
        **options: Any,
    ) -> None:
        self.starts_on_demand = options.get("start") == "spawn"
        processes = Processes()
        told = processes.initializer(initializer, tuple(initargs), environment)
        super().__init__(max_workers, **told, **options)
        processes.follow(self)
        self.worker_count = self._max_workers
        self._processes = processes

    def submit(self, fn: Any, /, *arguments: Any, **named: Any) -> Any:
        """Submits a call."""
        try:
            return super().submit(fn, *arguments, **named)
        except self.not_sent as error:
            failed: Future[Any] = Future()
            failed.set_running_or_notify_cancel()
            failed.set_exception(self._held(error))
            return failed

    def _held(self, error: BaseException) -> BaseException:
        """Returns the error that the future of a call holds whose arguments cannot be pickled."""
        return error

    @property
    def _executor_manager_thread(self) -> ManagerThread:
        return ManagerThread(self._processes)

    @property
    def _call_queue(self) -> ManagerThread:
        return ManagerThread(self._processes)
