"""An executor that runs tasks in threads of this process."""

from __future__ import annotations

import concurrent.futures
from typing import TYPE_CHECKING

from gristmill import _forked, _options
from gristmill.parsl._kernel.executors import ending
from gristmill.parsl._kernel.executors.base import ParslExecutor, check_files, radio_of_parsl

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any


class ThreadPoolExecutor(ParslExecutor):
    """An executor that runs tasks in threads: for calls that wait rather than compute.

    :param max_threads: how many tasks run at the same time; the default of the standard library if ``None``.
    :param thread_name_prefix: prefix of the threads' names; made of the label if not given.
    :param storage_access: staging providers for files; the kernel's own list if ``None``.
    :param working_dir: the folder that files are staged into.
    :param remote_monitoring_radio: how tasks report to Parsl's monitoring; through this process's queue if not given.

    Raises ``TypeError`` and ``ValueError`` for values of a wrong type or out of range.
    """

    def __init__(
        self,
        label: str = "threads",
        max_threads: int | None = 2,
        thread_name_prefix: str | None = None,
        storage_access: list[Any] | None = None,
        working_dir: str | None = None,
        remote_monitoring_radio: Any = None,
    ) -> None:
        super().__init__()
        self.label = _options.text("label", label)
        self.max_threads = _options.optional_count("max_threads", max_threads, 1, _options.LONG_MAX)
        thread_name_prefix = _options.optional_text("thread_name_prefix", thread_name_prefix)
        check_files(storage_access, working_dir)
        self.thread_name_prefix = (
            f"ThreadPoolExecutor-{label}" if thread_name_prefix is None else thread_name_prefix
        )
        self.storage_access = storage_access
        self.working_dir = working_dir
        self.remote_monitoring_radio = remote_monitoring_radio
        if remote_monitoring_radio is None:
            self.remote_monitoring_radio = radio_of_parsl(
                "multiprocessing", "MultiprocessingQueueRadio"
            )
        self._pool: concurrent.futures.ThreadPoolExecutor | None = None
        #: Identifies the exception that was handled when this executor started.
        self._handled_at_start: dict[str, Any] | None = None

    @property
    def executor(self) -> concurrent.futures.ThreadPoolExecutor | None:
        """The pool of threads; ``None`` before ``start``."""
        return self._pool

    def start(self) -> None:
        """Makes the pool. It starts a thread for each task that finds no idle one.

        Raises ``ConfigurationError`` if another kernel that has not ended uses this executor.
        """
        self._refuse_second_kernel()
        self._handled_at_start = ending.handled_now()
        self._pool = concurrent.futures.ThreadPoolExecutor(
            self.max_threads, thread_name_prefix=self.thread_name_prefix
        )
        self._running_in = _forked.process_generation()

    def submit(
        self,
        func: Callable[..., Any],
        /,
        resource_specification: dict[str, Any],
        *args: Any,
        **kwargs: Any,
    ) -> concurrent.futures.Future[Any]:
        """Submits the call to a thread.

        Raises ``InvalidResourceSpecification`` for any key: a thread has no resources.
        """
        if resource_specification:
            from gristmill.parsl._kernel.errors import InvalidResourceSpecification

            raise InvalidResourceSpecification(
                set(resource_specification), "threads take no resource specification"
            )
        if self._pool is None:
            raise RuntimeError(f"the executor {self.label} has not been started")
        return self._pool.submit(_forked.guarded_with, func, args, kwargs)

    def shutdown(self, block: bool = True) -> None:
        """Stops accepting tasks. Accepted tasks still run to their end: a thread cannot be ended from outside.

        While an exception is handled that was raised since the start, those that have not started are cancelled.

        :param block: whether to return only when all of them have ended. The interpreter waits for them in any case.
        """
        if self._pool is not None:
            error = ending.handled_since(self._handled_at_start)
            try:
                self._pool.shutdown(wait=block, cancel_futures=error is not None)
            finally:
                self._running_in = None
        super().shutdown()

    def monitor_resources(self) -> bool:
        """Returns ``False``: the tasks share one process, which must not be forked while other tasks run in it."""
        return False
