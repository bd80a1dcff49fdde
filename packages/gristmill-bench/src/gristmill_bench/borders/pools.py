"""Pools of ``concurrent.futures``, the standard library's and loky's, with timestamps from program and workers."""

from __future__ import annotations

from collections.abc import Callable
from itertools import count
from pathlib import Path
from typing import Any

from gristmill_bench.borders import notes, worker
from gristmill_bench.borders.hops import OF_POOLS, Hop, PoolBorder, of_borders
from gristmill_bench.dependencies import AfterParents
from gristmill_bench.executors.base import scratch
from gristmill_bench.interfaces import Future


class TimedPool:
    """A pool that timestamps its tasks. It wraps two methods of the pool's objects and changes nothing else.

    :param pool: of ``concurrent.futures``, or loky's, which is built alike.
    """

    def __init__(self, pool: Any) -> None:
        self._scratch = scratch()
        self._notes = notes.Notes(Path(self._scratch.name))
        self._numbers = count(1)
        #: Number of the last forgotten task, and of the last task.
        self._forgotten = self._last = 0
        #: The suite's number of each task, by the pool's number.
        self._tasks: dict[int, int] = {}
        self._pool = pool
        self._backend = AfterParents(pool)
        self._put = pool._call_queue.put
        pool._call_queue.put = self._note_and_put

    def submit(self, function: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future:
        """Submits a call."""
        number = self._last = next(self._numbers)
        self._notes.note(number, PoolBorder.SUBMITTED)
        place = self._scratch.name
        future: Any = self._backend.submit(worker.call, place, number, function, *args, **kwargs)
        future.add_done_callback(lambda _: self._notes.note(number, PoolBorder.DONE))
        self._watch()
        return future  # type: ignore[no-any-return]

    def begin(self) -> None:
        """Forgets all earlier tasks."""
        self._forgotten = self._last

    def hops(self) -> list[Hop]:
        """Returns the hops of later tasks that have ended."""
        noted = notes.read(Path(self._scratch.name))
        return of_borders(
            [borders for number, borders in noted.items() if number > self._forgotten], OF_POOLS
        )

    def shutdown(self) -> None:
        """Ends every process and thread of the pool."""
        self._backend.shutdown()
        self._scratch.cleanup()

    def _note_and_put(self, item: Any, *args: Any, **kwargs: Any) -> None:
        """Notes that the pool's own thread moves a task to the queue of its workers."""
        if item is not None:  # ``None`` tells a worker to end
            number = self._tasks[item.work_id] = item.args[1]
            self._notes.note(number, PoolBorder.QUEUED)
        self._put(item, *args, **kwargs)

    def _watch(self) -> None:
        """Wraps a method of the pool's thread, which starts with its first task, to note each result that it reads."""
        thread = self._pool._executor_manager_thread
        if thread is None or "process_result_item" in vars(thread):
            return
        process = thread.process_result_item

        def note_and_process(item: Any) -> None:
            number = self._tasks.pop(getattr(item, "work_id", -1), None)
            if number is not None:
                self._notes.note(number, PoolBorder.COLLECTED)
            process(item)

        thread.process_result_item = note_and_process
