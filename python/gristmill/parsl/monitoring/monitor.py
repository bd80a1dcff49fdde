"""What the kernel tells whoever records its run."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Sequence
    from concurrent.futures import Future

    from gristmill.parsl.tasks import TaskRecord


#: Told of a call that the engine runs all by itself: its future, and its arguments.
Watch = Callable[[Any, tuple[Any, ...], dict[str, Any]], None]


class Monitor(ABC):
    """Learns of a run while it goes on; all but ``close`` is called in the middle of the kernel's steps."""

    @abstractmethod
    def add_executor(self, executor: Any) -> None:
        """An executor is about to be started."""

    @abstractmethod
    def moved(self, task: TaskRecord) -> None:
        """A task came into another state."""

    @abstractmethod
    def submission(
        self, task: TaskRecord, executor: Any
    ) -> tuple[Callable[..., Any], Sequence[Any], dict[str, Any]]:
        """The call to give to the executor for a task."""

    def value_of(self, task: TaskRecord, attempt: Future[Any], result: Any) -> Any:
        """The task's own value, in what the call gave."""
        return result

    def raised(self, task: TaskRecord, attempt: Future[Any], error: BaseException) -> None:
        """The call raised this, which the task's retries are about to see."""
        return

    @property
    def watch(self) -> Watch | None:
        """What is to be told of calls that the engine runs all by itself; ``None`` if no call may be."""
        return None

    @abstractmethod
    def close(self) -> None:
        """The run has ended."""
