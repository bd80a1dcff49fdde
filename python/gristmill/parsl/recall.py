"""Calls whose result is remembered: answered at once, without a task."""

from __future__ import annotations

import threading
from concurrent.futures import Future
from concurrent.futures._base import FINISHED
from typing import TYPE_CHECKING, Any

from gristmill.parsl.checkpoint import MISSING
from gristmill.parsl.dependencies import DEEP_DEPENDENCY_RESOLVER, FUTURELESS_TYPES
from gristmill.parsl.files import is_file
from gristmill.parsl.futures import AppFuture
from gristmill.parsl.lanes import SPECIAL
from gristmill.parsl.memoization import BasicMemoizer
from gristmill.parsl.states import States
from gristmill.parsl.tasks import TaskRecord

if TYPE_CHECKING:
    from collections.abc import Iterable

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


class Recall:
    """Looks results up for calls that ask for it and wait for nothing.

    :param kernel: the kernel.
    :param is_observed: whether somebody wants to know of each step of each task.
    """

    def __init__(self, kernel: DataFlowKernel, is_observed: bool) -> None:
        self._kernel = kernel
        memoizer = kernel.memoizer
        # One of another class may look at more than the call.
        self._memoizer = memoizer if type(memoizer) is BasicMemoizer and not is_observed else None

    def find(
        self, app: PythonApp, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> RecalledFuture | None:
        """The future of a call whose result is remembered, else ``None``. Raises ``MemoKeyError`` as its task would."""
        if self._memoizer is None or not (kwargs.keys().isdisjoint(SPECIAL)):
            return None
        if _has_to_wait(args) or _has_to_wait(kwargs.values()):
            return None
        named = {**app.kwargs, **kwargs} if app.kwargs else kwargs
        value = self._memoizer.recall(app.func, args, named, app.ignore_for_cache or ())
        if value is MISSING:
            return None
        return RecalledFuture(self._kernel.count_recalled(), app, self._kernel, value)


def _has_to_wait(values: Iterable[Any]) -> bool:
    """Whether one of the values is a file, or has a future in it."""
    for value in values:
        if type(value) in FUTURELESS_TYPES:
            continue
        if is_file(value) or DEEP_DEPENDENCY_RESOLVER.traverse_to_gather(value):
            return True
    return False
