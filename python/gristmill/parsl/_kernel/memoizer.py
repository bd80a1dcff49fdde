"""The interface between the kernel and a memoizer, and the part of a task that is written to disk."""

from __future__ import annotations

import sys
from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any, Self

from gristmill.parsl._kernel.memo_files import ResultLost

if TYPE_CHECKING:
    from collections.abc import MutableMapping
    from concurrent.futures import Future

    from gristmill.parsl._kernel.memo_files import StoredFuture

    Task = MutableMapping[str, Any]


_LOST = object()


class CheckpointCommand:
    """One task's result, or its exception if that is not ``None``, for the checkpoint."""

    __slots__ = ("_result", "_stored", "exception", "task_record")

    def __init__(
        self, task_record: Task, *, result: object = None, exception: BaseException | None = None
    ) -> None:
        self.task_record = task_record
        self.exception = exception
        self._result = result
        self._stored: StoredFuture | None = None

    @property
    def result(self) -> Any:
        """The result, read from the disk if memory had no room for it. Raises ``ResultLost``."""
        # Read in this order, because another thread may be moving the result to the disk.
        result, stored = self._result, self._stored
        if result is _LOST:
            raise ResultLost("memory had no room for it")
        return result if stored is None else stored.load()

    @property
    def stored(self) -> StoredFuture | None:
        """The location of the result on disk, if it is no longer in memory."""
        return self._stored

    def let_go(self, stored: StoredFuture | None) -> None:
        """Releases the result and keeps its location on disk, and of the task only its number and key.

        Without a location the result is lost, and is not written to a checkpoint.
        """
        record = self.task_record
        self.task_record = {"id": record["id"], "hashsum": record["hashsum"]}
        if stored is None:
            self.exception = ResultLost("memory had no room for it")
            self._result = _LOST
        else:
            self._stored = stored
            self._result = None


class Memoizer(ABC):
    """The interface that the kernel asks before it runs a task, and notifies when a task has ended.

    Where Parsl is loaded, its own type checks accept these objects.
    """

    def __new__(cls, *_args: Any, **_named: Any) -> Self:
        """Makes a memoizer, and registers its class with Parsl."""
        theirs: Any = getattr(sys.modules.get("parsl.dataflow.memoization"), "Memoizer", None)
        if theirs is not None and not issubclass(cls, theirs):
            theirs.register(cls)
        return super().__new__(cls)

    @abstractmethod
    def start(self, *, run_dir: str, config_run_dir: str) -> None:
        """Begins a run.

        :param run_dir: the folder of this run.
        :param config_run_dir: the folder of all runs.
        """

    @abstractmethod
    def check_memo(self, task: Task) -> Future[Any] | None:
        """Returns the future whose result is the task's, or ``None`` if the task has to run."""

    @abstractmethod
    def update_memo_result(self, task: Task, r: Any) -> None:
        """Records that a task has succeeded, before the program can see its result."""

    @abstractmethod
    def update_memo_exception(self, task: Task, e: BaseException) -> None:
        """Records that a task has failed for good."""

    @abstractmethod
    def close(self) -> None:
        """Ends the run."""


def is_passive(memoizer: Any) -> bool:
    """Returns whether a memoizer ignores calls without ``cache=True``: ours and Parsl's do, another one may not."""
    kind = type(memoizer)
    return (kind.__module__, kind.__name__) in {
        ("gristmill.parsl._kernel.memoization", "BasicMemoizer"),
        ("parsl.dataflow.memoization", "BasicMemoizer"),
    }
