"""Parsl's tasks sent straight to worker processes, without an interchange and managers in between.

Source of the idea: DIREX and its worker queues ("Towards Fine-grained Parallelism in Parallel and Distributed Python
Libraries", thesis, sections 2.3.1 and 2.3.2). As there, queues are those of ``multiprocessing``, and all workers share
one or each has its own, filled in turn; there is one machine, and no task survives the loss of a worker. Unlike there,
the loss ends all tasks with an error, so that the program does not wait for them.
"""

from __future__ import annotations

import importlib
import multiprocessing
from collections.abc import Callable
from concurrent.futures import Future
from itertools import cycle
from multiprocessing.connection import wait
from pickle import loads
from threading import Lock, Thread
from typing import Any

from gristmill.parsl.executors.base import ParslExecutor
from gristmill_bench.executors.direct_worker import run_tasks
from gristmill_bench.executors.parsl_kernels import Queues

#: Seconds that workers have to end when they are asked to.
_GRACE_S = 2.0


class WorkerGone(RuntimeError):
    """Loss of a worker process: its task, and those that it may have held up, have no result."""


class DirectExecutor(ParslExecutor):
    """Executor for either kernel. Functions, arguments and results travel as with HTEX, in Parsl's own serialization.

    :param max_workers: worker processes, which are started with the kernel.
    :param queues: ``"one"`` queue of tasks for all workers, or one for ``"each"``.
    """

    def __init__(self, max_workers: int, queues: Queues = "one") -> None:
        super().__init__()
        self.label = "direct"
        self.max_workers = max_workers
        self.queues = queues
        self._tasks: dict[int, Future[Any]] = {}
        self._lock = Lock()
        self._gone: WorkerGone | None = None
        self._count = 0

    def start(self) -> None:
        """Starts the workers, each an interpreter of its own, as HTEX's manager does."""
        parsl = importlib.import_module("parsl.serialize")
        self._pack, self._unpack = parsl.pack_apply_message, parsl.deserialize
        context = multiprocessing.get_context("spawn")
        made = [context.Queue() for _ in range(1 if self.queues == "one" else self.max_workers)]
        self._task_queues, self._next = made, cycle(made)
        self._results = context.Queue()
        self._workers = [
            context.Process(target=run_tasks, args=(made[number % len(made)], self._results))
            for number in range(self.max_workers)
        ]
        for worker in self._workers:
            worker.start()
        self._stopped, self._stop = context.Pipe(duplex=False)
        self._reader = Thread(target=self._read, name="direct-results", daemon=True)
        self._reader.start()

    def submit(
        self,
        func: Callable[..., Any],
        /,
        resource_specification: dict[str, Any],
        *args: Any,
        **kwargs: Any,
    ) -> Future[Any]:
        """Puts the call into a queue and returns its future."""
        if resource_specification:
            raise ValueError("direct workers take no resource specification")
        packed = self._pack(func, args, kwargs, buffer_threshold=1 << 20)
        future: Future[Any] = Future()
        # A call in a queue cannot be cancelled.
        future.set_running_or_notify_cancel()
        with self._lock:
            if self._gone is not None:
                future.set_exception(self._gone)
                return future
            self._count += 1
            number = self._count
            self._tasks[number] = future
        next(self._next).put((number, packed))
        return future

    def shutdown(self) -> None:
        """Ends the workers, whatever they do."""
        self._end(WorkerGone("the executor was shut down"))
        for queue in self._task_queues:
            for _ in self._workers:
                queue.put(None)
        for worker in self._workers:
            worker.join(_GRACE_S)
            if worker.is_alive():
                worker.kill()
                worker.join()
        # Not by a message in the queue: a killed worker may hold the lock of the queue.
        self._stop.close()
        self._reader.join(_GRACE_S)
        for queue in (*self._task_queues, self._results):
            # No process reads the rest of the queue.
            queue.cancel_join_thread()
            queue.close()

    def _read(self) -> None:
        """Completes futures with results until the executor is shut down; fails all tasks when a worker ends."""
        ends = [worker.sentinel for worker in self._workers]
        # The public methods of a queue cannot wait for it and for processes together.
        incoming: Any = self._results._reader  # type: ignore[attr-defined]
        while True:
            ready = wait([incoming, self._stopped, *ends])
            if self._stopped in ready:
                return
            if incoming not in ready:
                self._end(WorkerGone("a worker has ended, and with it all tasks"))
                ends = []
                continue
            number, is_error, packed = loads(self._results.get())
            with self._lock:
                future = self._tasks.pop(number, None)
            if future is not None:
                self._complete(future, is_error, packed)

    def _complete(self, future: Future[Any], is_error: bool, packed: bytes) -> None:
        try:
            value = self._unpack(packed)
        except BaseException as error:
            # The error fails this task, and not those whose results come after it.
            is_error, value = True, error
        if is_error:
            future.set_exception(value)
        else:
            future.set_result(value)

    def _end(self, reason: WorkerGone) -> None:
        """Fails all tasks that have not ended, and all later ones."""
        with self._lock:
            gone = self._gone = self._gone or reason
            left, self._tasks = self._tasks, {}
        for future in left.values():
            future.set_exception(gone)
