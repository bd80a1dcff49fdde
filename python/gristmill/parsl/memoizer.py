"""What the kernel asks of whoever remembers results, and what is written to disk of one task."""

from __future__ import annotations

import sys
from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any, Self

if TYPE_CHECKING:
    from collections.abc import MutableMapping
    from concurrent.futures import Future

    Task = MutableMapping[str, Any]


class CheckpointCommand:
    """What is to be written about one task: its result, or its exception if that is not ``None``."""

    __slots__ = ("exception", "result", "task_record")

    def __init__(
        self, task_record: Task, *, result: object = None, exception: BaseException | None = None
    ) -> None:
        self.task_record = task_record
        self.result = result
        self.exception = exception


class Memoizer(ABC):
    """What the kernel asks before it runs a task, and tells when one has ended.

    Where Parsl is loaded, its own checks take one for theirs.
    """

    def __new__(cls, *_args: Any, **_named: Any) -> Self:
        """Makes one, and tells Parsl."""
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
        """Gives the future whose result is the task's, if there is one; else the task is run."""

    @abstractmethod
    def update_memo_result(self, task: Task, r: Any) -> None:
        """Learns that a task has succeeded, before anybody sees its result."""

    @abstractmethod
    def update_memo_exception(self, task: Task, e: BaseException) -> None:
        """Learns that a task has failed, for good."""

    @abstractmethod
    def close(self) -> None:
        """Ends the run."""


def is_passive(memoizer: Any) -> bool:
    """Whether a memoizer leaves calls alone that do not ask for it: ours and Parsl's do, another may not."""
    kind = type(memoizer)
    return (kind.__module__, kind.__name__) in {
        ("gristmill.parsl.memoization", "BasicMemoizer"),
        ("parsl.dataflow.memoization", "BasicMemoizer"),
    }
