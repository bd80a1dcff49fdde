"""Tasks in threads of this process."""

from __future__ import annotations

import concurrent.futures
from typing import TYPE_CHECKING

from gristmill.parsl.executors.base import ParslExecutor, radio_of_parsl

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any


class ThreadPoolExecutor(ParslExecutor):
    """Runs tasks in threads: for calls that wait rather than compute.

    :param max_threads: how many run at the same time; as many as the standard library thinks good if ``None``.
    :param thread_name_prefix: what the threads' names begin with; made of the label if not given.
    :param storage_access: staging providers for files; the kernel's own list if ``None``.
    :param working_dir: the folder that files are staged into.
    :param remote_monitoring_radio: how tasks report to Parsl's monitoring; through this process's queue if not given.
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
        self.label = label
        self.max_threads = max_threads
        self.thread_name_prefix = (
            f"ThreadPoolExecutor-{label}" if thread_name_prefix is None else thread_name_prefix
        )
        self.storage_access = storage_access
        self.working_dir = working_dir
        self.remote_monitoring_radio = remote_monitoring_radio or radio_of_parsl(
            "multiprocessing", "MultiprocessingQueueRadio"
        )
        self._pool: concurrent.futures.ThreadPoolExecutor | None = None

    def start(self) -> None:
        """Makes the pool; a thread starts with the first task that finds none idle."""
        self._pool = concurrent.futures.ThreadPoolExecutor(
            self.max_threads, thread_name_prefix=self.thread_name_prefix
        )

    def submit(
        self,
        func: Callable[..., Any],
        /,
        resource_specification: dict[str, Any],
        *args: Any,
        **kwargs: Any,
    ) -> concurrent.futures.Future[Any]:
        """Runs the call in a thread. Raises ``InvalidResourceSpecification`` for any key: a thread has no resources."""
        if resource_specification:
            from gristmill.parsl.errors import InvalidResourceSpecification

            raise InvalidResourceSpecification(
                set(resource_specification), "threads take no resource specification"
            )
        if self._pool is None:
            raise RuntimeError(f"the executor {self.label} has not been started")
        return self._pool.submit(func, *args, **kwargs)

    def shutdown(self, block: bool = True) -> None:
        """Takes no more tasks; those it has are run, since a thread cannot be ended from outside.

        :param block: whether to return only when all of them have ended; the interpreter waits for them in any case.
        """
        if self._pool is not None:
            self._pool.shutdown(wait=block)
        super().shutdown()

    def monitor_resources(self) -> bool:
        """``False``: the tasks share one process, and it must not be forked while others run in it."""
        return False
