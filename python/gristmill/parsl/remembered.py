"""The future of a call whose result was remembered."""

from __future__ import annotations

import threading
from concurrent.futures import Future
from concurrent.futures._base import FINISHED
from typing import TYPE_CHECKING, Any

from gristmill.parsl.futures import AppFuture
from gristmill.parsl.states import States
from gristmill.parsl.tasks import TaskRecord

if TYPE_CHECKING:
    from gristmill.parsl.apps import PythonApp
    from gristmill.parsl.kernel import DataFlowKernel

#: Of every future that is final from the start: nobody ever waits for one.
_SHARED_CONDITION = threading.Condition()


class RecalledFuture(AppFuture, Future[Any]):
    """The future of a call whose value was there already."""

    def __init__(self, number: int, app: PythonApp, kernel: DataFlowKernel, value: Any) -> None:
        # Instead of the base's own: a lock for each would be half of what a call costs.
        self._condition = _SHARED_CONDITION
        self._state = FINISHED
        self._result = value
        self._exception = None
        self._waiters: list[Any] = []
        self._done_callbacks: list[Any] = []
        self._call = (number, app, kernel)

    @property
    def task_record(self) -> TaskRecord:  # type: ignore[override]
        """What is known of the task, written down when it is asked for."""
        number, app, kernel = self._call
        return TaskRecord(
            id=number,
            dfk=kernel,
            executor=kernel.labels(app.executors)[0],
            func=app.func,
            func_name=app.__name__,
            args=(),
            kwargs={},
            app_fu=self,
            memoize=True,
            from_memo=True,
            ignore_for_cache=app.ignore_for_cache or [],
            join=app.join,
            resource_specification={},
            status=States.memo_done,
            time_invoked=None,
        )
