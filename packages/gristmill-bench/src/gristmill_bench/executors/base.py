"""Base class of all executor plug-ins, and functions that the plug-ins share."""

from __future__ import annotations

import os
from abc import abstractmethod
from collections.abc import Callable
from tempfile import TemporaryDirectory
from time import monotonic, sleep
from typing import Annotated, Any, ClassVar, Literal

from pydantic import Field, model_validator

from gristmill_bench.borders.hops import TimedBackend
from gristmill_bench.errors import BenchError
from gristmill_bench.executors.bare import Bare
from gristmill_bench.interfaces import Backend
from gristmill_bench.plugins import Kind, Plugin

#: Worker processes, or threads.
Workers = Annotated[int, Field(ge=1, le=65_535)]
#: Seconds after which the executor ends a task; no limit if not given.
TaskTimeout = Annotated[float, Field(gt=0)] | None
#: Seconds that nodes may take to connect.
_NODES_S = 60.0


class ExecutorPlugin(Plugin):
    """An executor that is not open yet."""

    kind: ClassVar[Kind] = "executor"
    #: Variants that a comparison of executors shows separately, as the fields of each.
    ways: ClassVar[tuple[dict[str, Any], ...]] = ({},)
    #: Reason why its workers cannot be in groups (``gristmill_bench.executors.groups``).
    without_groups: ClassVar[str] = "it does not say how its workers would enter groups"

    workers: Workers = 2
    #: Threads that BLAS and OpenMP may use in each worker, and in the program; if unset they and the executor choose.
    threads: Annotated[int, Field(ge=1)] | Literal["unset"] = 1

    @model_validator(mode="before")
    @classmethod
    def _refuse_groups(cls, fields: Any) -> Any:
        if isinstance(fields, dict) and "groups" in fields and "groups" not in cls.model_fields:
            raise ValueError(f"its workers cannot be in groups: {cls.without_groups}")
        return fields

    @abstractmethod
    def open(self) -> Backend:
        """Starts the executor, with the workers that it starts before there are tasks."""

    def open_timed(self) -> TimedBackend:
        """Starts the executor, and notes when tasks cross the borders between components.

        Raises ``BenchError`` if the borders of the executor are not known.
        """
        raise BenchError("run.timings: the borders that tasks of this executor cross are not known")

    def open_bare(self) -> Bare:
        """Starts the executor without the wrappers that give all executors one interface.

        Raises ``BenchError`` if the executor has no such form with these fields.
        """
        raise BenchError(
            "this executor, with these fields, is not used without the suite's wrappers"
        )

    def limited(self, seconds: float | None) -> ExecutorPlugin:
        """Returns a copy with that limit for each task, or itself if it has no ``task_timeout`` or one was chosen."""
        if seconds is None or getattr(self, "task_timeout", 0) is not None:
            return self
        return self.model_copy(update={"task_timeout": seconds})

    def told_threads(self) -> int | None:
        """Returns the threads of each worker that the executor is configured with, or ``None`` if it chooses itself."""
        return None if self.threads == "unset" else self.threads

    def loss_repeats(self) -> int:
        """Returns how often the executor, as configured, may run a task again whose worker was lost."""
        return 0


def workers_of_each(workers: int, nodes: int) -> int:
    """Returns the workers of each node, or all workers without nodes.

    Raises ``ValueError`` if nodes would have different numbers of workers.
    """
    each, left = divmod(workers, nodes or 1)
    if left:
        raise ValueError(f"{workers} workers cannot be shared equally by {nodes} nodes")
    return each


def wait_for_nodes(count: int, there: Callable[[], int]) -> None:
    """Waits until all nodes are there, because the first one could do all of a short run alone.

    Raises ``BenchError`` if the nodes do not come in time.
    """
    end = monotonic() + _NODES_S
    while (found := there()) < count:
        if monotonic() > end:
            raise BenchError(f"{found} of {count} nodes were there after {_NODES_S:g} s")
        sleep(0.02)


def scratch() -> TemporaryDirectory[str]:
    """Makes a folder for logs and sockets, with a short path, because the length of socket paths is limited."""
    return TemporaryDirectory(prefix="gb-", ignore_cleanup_errors=True)


def put_first(variable: str, path: str) -> None:
    """Puts a folder first in an environment variable that lists folders."""
    paths = [path, *os.environ.get(variable, "").split(os.pathsep)]
    os.environ[variable] = os.pathsep.join(dict.fromkeys(one for one in paths if one))
