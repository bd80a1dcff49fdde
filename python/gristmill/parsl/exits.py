"""Calls that the engine runs by itself and whose ends are written to a checkpoint before anybody sees them.

Ends that come together are written together: that is what one costs little by.
"""

from __future__ import annotations

import logging
from concurrent.futures import CancelledError, wait
from functools import partial
from typing import TYPE_CHECKING, Any

from gristmill._native import hide_from_collector
from gristmill.parsl.futures import LightFuture, set_results

if TYPE_CHECKING:
    from gristmill.parsl.memoization import BasicMemoizer
    from gristmill.parsl.tasks import TaskRecord

_log = logging.getLogger("parsl.gristmill.memoization")


class CheckpointedFuture(LightFuture):
    """The future of a call that the engine runs, final once its end is written.

    The collector need not look at it until somebody waits or the value is one that it has to look at: nothing leads
    back before.

    :param engine_future: final as soon as the task is.
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
    def task_record(self) -> TaskRecord:  # type: ignore[override]
        """What is known of the task, written down when it is asked for."""
        record: TaskRecord = self.engine_future.task_record
        record.app_fu, record.hashsum = self, self.hashsum
        return record

    def cancel(self, running: bool = True, grace: float = 1.0) -> bool:
        """Cancels the task, one that runs too; see ``AppFuture.cancel``."""
        return bool(self.engine_future.cancel(running, grace))

    def running(self) -> bool:
        """Whether the task runs."""
        return not self.done() and bool(self.engine_future.running())


class Exits:
    """The calls whose ends are not written yet.

    :param memoizer: told of each end before anybody sees it.
    """

    def __init__(self, memoizer: BasicMemoizer) -> None:
        self._memoizer = memoizer
        #: What a program sees of a call, by the label of its engine and the engine's task.
        self._open: dict[str, dict[int, CheckpointedFuture]] = {}

    def follow(self, engine_future: Any, hashsum: str, engine: str) -> CheckpointedFuture:
        """The future that a program sees of a call with this key; its submitter holds ``claiming``.

        :param engine_future: of a lane that tells of each task's end.
        :param engine: the label of its executor.
        """
        future = CheckpointedFuture(engine_future, hashsum)
        followed = self._open.get(engine)
        if followed is None:
            followed = self._open[engine] = {}
            engine_future._gather(partial(self._take, followed))
        followed[engine_future._task] = future
        return future

    def wait(self) -> None:
        """Waits until every call that was made before is final."""
        wait([future for followed in self._open.values() for future in list(followed.values())])

    def _take(self, followed: dict[int, CheckpointedFuture], tasks: list[int]) -> list[int]:
        """Ends those of an engine's tasks that are followed; gives the others back."""
        if not followed.keys() >= set(tasks):
            # Whoever has submitted one may just be about to have it followed.
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
                succeeded.append((future, future.engine_future.result()))
            except BaseException as error:
                failed.append((future, error))
        try:
            self._memoizer.update_memo_results(succeeded)
        except Exception:
            _log.exception("results of %s tasks could not be memoized", len(succeeded))
        set_results(succeeded)
        for future, raised in failed:
            self._fail(future, raised)

    def _fail(self, future: CheckpointedFuture, error: BaseException) -> None:
        # As much of a task as the memoizer looks at.
        task = {"id": future.tid, "hashsum": future.hashsum, "from_memo": False, "app_fu": future}
        self._memoizer.update_memo_exception(task, error)
        if isinstance(error, CancelledError):
            future.set_cancelled()
        else:
            future.set_exception(error)
