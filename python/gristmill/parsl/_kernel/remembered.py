"""The future of a call whose result was remembered."""

from __future__ import annotations

import functools
from concurrent.futures._base import FINISHED
from typing import TYPE_CHECKING, Any

from gristmill._condition import CONDITION
from gristmill.parsl._kernel.futures import AppFuture, named_as_parsls
from gristmill.parsl._kernel.states import States
from gristmill.parsl._kernel.tasks import TaskRecord

if TYPE_CHECKING:
    from gristmill.parsl._kernel.apps import PythonApp
    from gristmill.parsl._kernel.kernel import DataFlowKernel


@named_as_parsls
class RecalledFuture(AppFuture):
    """The future of a call whose value was known before the call."""

    def __init__(
        self, number: int, app: PythonApp, kernel: DataFlowKernel, key: str, value: Any
    ) -> None:
        # Replaces the constructor of the base class. Its lock would be half the cost of a call, and the state is final.
        self._condition: Any = CONDITION
        self._state = FINISHED
        self._result = value
        self._exception = None
        self._waiters: list[Any] = []
        self._done_callbacks: list[Any] = []
        self._call = (number, app, kernel, key)

    @property
    def _kernel(self) -> DataFlowKernel:
        return self._call[2]

    @functools.cached_property
    def task_record(self) -> TaskRecord:  # type: ignore[override]
        """The record of the task. It is made at the first access."""
        number, app, kernel, key = self._call
        record = TaskRecord(
            id=number,
            dfk=kernel,
            executor=kernel.labels(app.executors)[0],
            func=app.func,
            func_name=app.__name__,
            args=[],
            kwargs={},
            app_fu=self,
            memoize=True,
            from_memo=True,
            ignore_for_cache=app.ignore_for_cache or [],
            join=app.join,
            resource_specification={},
            status=States.memo_done,
        )
        record.hashsum = key
        return record
