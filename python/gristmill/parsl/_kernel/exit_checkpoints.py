"""Calls that the engine runs alone, and whose ends are written to a checkpoint before the program can see them.

Ends that arrive together are written together, which makes each end cheap.
"""

from __future__ import annotations

import logging
from concurrent.futures import CancelledError, wait
from functools import partial
from typing import TYPE_CHECKING, Any

from gristmill import _forked
from gristmill._native import hide_from_collector
from gristmill.parsl._kernel.futures import LightFuture, named_as_parsls, set_results

if TYPE_CHECKING:
    from gristmill.parsl._kernel.memoization import BasicMemoizer
    from gristmill.parsl._kernel.tasks import TaskRecord

_log = logging.getLogger("parsl.gristmill.memoization")


@named_as_parsls
class CheckpointedFuture(LightFuture):
    """The future of a call that the engine runs. It becomes final once the end of the call is written.

    The garbage collector ignores the future until a thread waits for it, or until it gets a value that the collector
    has to track. Before that, nothing in it can refer back to it.

    :param engine_future: becomes final as soon as the task does.
    :param hashsum: the key of the call.
    """

    def __init__(self, engine_future: Any, hashsum: str) -> None:
        self.engine_future = engine_future
        self.hashsum = hashsum
        hide_from_collector(self)

    @property
    def tid(self) -> int:
        """The task's number in its kernel, from 0."""
        number: int = self.engine_future.tid
        return number

    @property
    def _kernel(self) -> Any:
        return self.engine_future._kernel

    @property
    def task_record(self) -> TaskRecord:  # type: ignore[override]
        """The record of the task. It is made at the first access."""
        record: TaskRecord = self.engine_future.task_record
        record.app_fu, record.hashsum = self, self.hashsum
        return record

    def cancel(self, running: bool = True, grace: float = 1.0) -> bool:
        """Cancels the task, even if it is running; see ``AppFuture.cancel``."""
        return bool(self.engine_future.cancel(running, grace))

    def running(self) -> bool:
        """Returns whether the task runs."""
        return not self.done() and bool(self.engine_future.running())


class ExitCheckpoints:
    """The calls whose ends are not written yet.

    :param memoizer: notified of each end before the program can see it.
    """

    def __init__(self, memoizer: BasicMemoizer) -> None:
        self._memoizer = memoizer
        #: The futures that the program has, by the label of the engine and the engine's task.
        self._open: dict[str, dict[int, CheckpointedFuture]] = {}

    def follow(self, engine_future: Any, hashsum: str, engine: str) -> CheckpointedFuture:
        """Returns the future for the program of a call with this key. The caller holds ``claiming``.

        :param engine_future: from a fast path that reports the end of each task.
        :param engine: the label of its executor.
        """
        future = CheckpointedFuture(engine_future, hashsum)
        followed = self._open.get(engine)
        if followed is None:
            # ``setdefault``: a signal handler may have added one. An engine has one sink, which holds one of these
            # dicts.
            followed = self._open.setdefault(engine, {})
            engine_future._gather(partial(self._take, followed))
        followed[engine_future._task] = future
        return future

    def wait(self) -> None:
        """Waits until every call that was made before is final."""
        wait([future for followed in self._open.values() for future in list(followed.values())])

    def _take(self, followed: dict[int, CheckpointedFuture], tasks: list[int]) -> list[int]:
        """Ends the followed tasks of an engine, and returns the other tasks."""
        if not followed.keys() >= set(tasks):
            # Another thread may have submitted a task and not followed it yet. Taking the lock waits for that thread.
            with self._memoizer.claiming:
                pass
        ended = [task for task in tasks if task in followed]
        others = [task for task in tasks if task not in followed]
        self._end([followed[task] for task in ended])
        for task in ended:
            del followed[task]
        return others

    def _end(self, futures: list[CheckpointedFuture]) -> None:
        succeeded: list[tuple[CheckpointedFuture, Any]] = []
        failed: list[tuple[CheckpointedFuture, BaseException]] = []
        for future in futures:
            try:
                succeeded.append((future, _forked.guarded(future.engine_future.result)))
            except BaseException as error:
                failed.append((future, error))
        try:
            _forked.guarded(self._memoizer.update_memo_results, succeeded)
        except Exception:
            _log.exception("results of %s tasks could not be memoized", len(succeeded))
        set_results(succeeded)
        for future, raised in failed:
            self._fail(future, raised)
        _forked.guarded(self._memoizer.shrink)

    def _fail(self, future: CheckpointedFuture, error: BaseException) -> None:
        # The part of a task that the memoizer reads.
        task = {"id": future.tid, "hashsum": future.hashsum, "from_memo": False, "app_fu": future}
        self._memoizer.update_memo_exception(task, error)
        if issubclass(type(error), CancelledError):
            future.set_cancelled()
        else:
            future.set_exception(error)
