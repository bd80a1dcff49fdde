"""What all executors have: how many workers, and how they are opened."""

from __future__ import annotations

from abc import abstractmethod
from typing import Annotated, Any, ClassVar

from pydantic import Field

from gristmill.bench.interfaces import Backend
from gristmill.bench.plugins import Kind, Plugin

#: Worker processes, or threads.
Workers = Annotated[int, Field(ge=1, le=65_535)]
#: Seconds after which the executor ends a task; it has all the time if not given.
TaskTimeout = Annotated[float, Field(gt=0)] | None


class ExecutorPlugin(Plugin):
    """An executor, not yet open."""

    kind: ClassVar[Kind] = "executor"
    #: Ways of it that are to be told apart where executors are looked at side by side: fields of each.
    ways: ClassVar[tuple[dict[str, Any], ...]] = ({},)

    workers: Workers = 2

    @abstractmethod
    def open(self) -> Backend:
        """Starts its workers, as far as it does before there are tasks."""

    def limited(self, seconds: float | None) -> ExecutorPlugin:
        """Itself, with that time for each task, if it has a ``task_timeout`` and nothing was chosen for that."""
        if seconds is None or getattr(self, "task_timeout", 0) is not None:
            return self
        return self.model_copy(update={"task_timeout": seconds})

    def loss_repeats(self) -> int:
        """How often it may run a task again whose worker was lost, as it is set up here."""
        return 0
