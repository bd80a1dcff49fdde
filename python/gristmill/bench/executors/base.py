"""What all executors have: how many workers, with how many threads, and how they are opened."""

from __future__ import annotations

import os
from abc import abstractmethod
from collections.abc import Callable
from tempfile import TemporaryDirectory
from time import monotonic, sleep
from typing import Annotated, Any, ClassVar, Literal

from pydantic import Field, model_validator

from gristmill.bench.borders.hops import TaggedBackend
from gristmill.bench.errors import BenchError
from gristmill.bench.interfaces import Backend
from gristmill.bench.plugins import Kind, Plugin

#: Worker processes, or threads.
Workers = Annotated[int, Field(ge=1, le=65_535)]
#: Seconds after which the executor ends a task; it has all the time if not given.
TaskTimeout = Annotated[float, Field(gt=0)] | None
#: How long nodes may take until they are there, seconds.
_NODES_S = 60.0


class ExecutorPlugin(Plugin):
    """An executor, not yet open."""

    kind: ClassVar[Kind] = "executor"
    #: Ways of it that are to be told apart where executors are looked at side by side: fields of each.
    ways: ClassVar[tuple[dict[str, Any], ...]] = ({},)
    #: Why its workers cannot be in groups (``gristmill.bench.executors.groups``).
    without_groups: ClassVar[str] = "it does not say how its workers would enter groups"

    workers: Workers = 2
    #: That BLAS and OpenMP may use in each worker, and in the program; where it is unset they and the executor choose.
    threads: Annotated[int, Field(ge=1)] | Literal["unset"] = 1

    @model_validator(mode="before")
    @classmethod
    def _refuse_groups(cls, fields: Any) -> Any:
        if isinstance(fields, dict) and "groups" in fields and "groups" not in cls.model_fields:
            raise ValueError(f"its workers cannot be in groups: {cls.without_groups}")
        return fields

    @abstractmethod
    def open(self) -> Backend:
        """Starts its workers, as far as it does before there are tasks."""

    def open_tagged(self) -> TaggedBackend:
        """Starts its workers, and notes when tasks cross the borders between components; ``BenchError``: it cannot."""
        raise BenchError("run.tags: the borders that tasks of this executor cross are not known")

    def limited(self, seconds: float | None) -> ExecutorPlugin:
        """Itself, with that time for each task, if it has a ``task_timeout`` and nothing was chosen for that."""
        if seconds is None or getattr(self, "task_timeout", 0) is not None:
            return self
        return self.model_copy(update={"task_timeout": seconds})

    def told_threads(self) -> int | None:
        """The threads that the executor is told to give its workers, if it is told of any."""
        return None if self.threads == "unset" else self.threads

    def loss_repeats(self) -> int:
        """How often it may run a task again whose worker was lost, as it is set up here."""
        return 0


def workers_of_each(workers: int, nodes: int) -> int:
    """How many workers each of some nodes has; all, without nodes. ``ValueError``: they have not equally many."""
    each, left = divmod(workers, nodes or 1)
    if left:
        raise ValueError(f"{workers} workers cannot be shared equally by {nodes} nodes")
    return each


def wait_for_nodes(count: int, there: Callable[[], int]) -> None:
    """Waits until all are there: the first one could do all of a short run alone. ``BenchError``: they did not come."""
    end = monotonic() + _NODES_S
    while (found := there()) < count:
        if monotonic() > end:
            raise BenchError(f"{found} of {count} nodes were there after {_NODES_S:g} s")
        sleep(0.02)


def scratch() -> TemporaryDirectory[str]:
    """A folder for logs and sockets: short, as the paths of these are limited."""
    return TemporaryDirectory(prefix="gb-", ignore_cleanup_errors=True)


def put_first(variable: str, path: str) -> None:
    """Has a variable that lists folders begin with this one."""
    paths = [path, *os.environ.get(variable, "").split(os.pathsep)]
    os.environ[variable] = os.pathsep.join(dict.fromkeys(one for one in paths if one))
