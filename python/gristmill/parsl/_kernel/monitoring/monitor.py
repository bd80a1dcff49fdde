"""The interface through which the kernel reports its run to monitoring."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Sequence
    from concurrent.futures import Future

    from gristmill.parsl._kernel.tasks import Task


#: Called for each call that the engine runs alone, with its future and its arguments.
Watch = Callable[[Any, tuple[Any, ...], dict[str, Any]], None]


class Monitor(ABC):
    """An observer of a run in progress. The kernel calls all methods but ``close`` in the middle of its steps."""

    @abstractmethod
    def add_executor(self, executor: Any) -> None:
        """Records an executor that is about to be started."""

    @abstractmethod
    def moved(self, task: Task) -> None:
        """Records a task's change of state."""

    @abstractmethod
    def submission(
        self, task: Task, executor: Any, function: Callable[..., Any]
    ) -> tuple[Callable[..., Any], Sequence[Any], dict[str, Any]]:
        """Returns the call to submit to the executor for a task with this function."""

    def value_of(self, task: Task, attempt: Future[Any], result: Any) -> Any:
        """Returns the task's own value from the value of the submitted call."""
        return result

    def raised(self, task: Task, attempt: Future[Any], error: BaseException) -> None:
        """Records the exception of a call, before the task's retries see it."""
        return

    @property
    def watch(self) -> Watch | None:
        """The callback for calls that the engine runs alone; ``None`` if the engine may run no call alone."""
        return None

    @abstractmethod
    def close(self) -> None:
        """Records the end of the run."""
