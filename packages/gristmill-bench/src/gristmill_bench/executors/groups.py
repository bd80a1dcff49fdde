"""Groups of workers, some slower than others: a cluster of different machines, on one.

Source: Phung et al., *Accelerating Function-Centric Applications by Discovering, Distributing, and Retaining Reusable
Context in Workflow Systems*, table 3, which runs on five groups of machines. Here a slow worker is a process with a
share of a CPU, limited by the quota of a control group of its own.

A worker assigns itself: it first takes a free CPU slot, so that no task runs before its worker is in a group. The
worker that replaces a dead one takes over its CPU slot.
"""

from __future__ import annotations

import fcntl
import os
from abc import abstractmethod
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from time import monotonic, sleep
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, model_validator

from gristmill_bench import call
from gristmill_bench.executors import cgroups
from gristmill_bench.executors.base import ExecutorPlugin, Workers, scratch
from gristmill_bench.interfaces import Backend, Keeper

#: Function that each worker runs before its first task.
Initializer = Callable[[], object]
#: Seconds that a worker waits for a CPU slot, because the worker that held it may not be gone yet.
_PLACE_PATIENCE_S = 10.0


class Group(BaseModel):
    """A group of equal workers."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    name: Annotated[str, Field(min_length=1)]
    workers: Workers = 1
    #: Share of a CPU that each worker of the group has; 1 means no limit.
    speed: Annotated[float, Field(ge=0.01, le=1)] = 1.0


class GroupedExecutor(ExecutorPlugin):
    """An executor whose workers are processes that run a function before their first task."""

    #: Groups of the workers; all workers are equal without groups.
    groups: tuple[Group, ...] = ()

    @model_validator(mode="before")
    @classmethod
    def _count(cls, fields: Any) -> Any:
        """Fills in the number of workers from the groups if it is not given."""
        if isinstance(fields, dict) and fields.get("groups") and "workers" not in fields:
            try:
                counts = [Group.model_validate(one).workers for one in fields["groups"]]
            except (TypeError, ValueError):
                return fields  # validation of the field reports the error
            return fields | {"workers": sum(counts)}
        return fields

    @model_validator(mode="after")
    def _fits(self) -> GroupedExecutor:
        if not self.groups:
            return self
        twice = [
            name for name, count in Counter(one.name for one in self.groups).items() if count > 1
        ]
        if twice:
            raise ValueError(f"there are two groups {twice[0]!r}")
        counted = sum(one.workers for one in self.groups)
        if counted != self.workers:
            raise ValueError(f"groups have {counted} workers, and the executor {self.workers}")
        return self

    def open(self) -> Backend:
        """Starts the workers; each first enters a group, if there are groups."""
        if not self.groups:
            return self.start_workers(None)
        places = _Places(self.groups)
        try:
            return _Grouped(self.start_workers(places.entry), places)
        except BaseException:
            places.close()
            raise

    @abstractmethod
    def start_workers(self, initializer: Initializer | None) -> Backend:
        """Starts the executor, whose workers run the initializer, if there is one, before any task."""


class Entry:
    """Initializer of a worker: has the calling process take a CPU slot."""

    def __init__(self, file: str, places: list[tuple[str, Path | None]]) -> None:
        self._file = file
        self._places = places

    def __call__(self) -> None:
        """Takes a CPU slot. Raises ``RuntimeError`` if other workers hold all of them."""
        global _held
        if _held is not None and _held[0] == os.getpid():
            return
        descriptor = os.open(self._file, os.O_RDWR | os.O_CLOEXEC)
        number = self._take(descriptor)
        _held = os.getpid(), descriptor
        name, folder = self._places[number]
        if folder is not None:
            cgroups.enter(folder)
        call.group = name

    def _take(self, descriptor: int) -> int:
        """Locks a byte of the file until this process ends, and returns its index."""
        end = monotonic() + _PLACE_PATIENCE_S
        while True:
            for number in range(len(self._places)):
                try:
                    fcntl.lockf(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, number)
                except OSError:
                    continue
                return number
            if monotonic() > end:
                raise RuntimeError(f"there are more workers than places: {len(self._places)}")
            sleep(0.01)


#: Process that holds a CPU slot, and the file descriptor of its lock. A child of a worker is in the group, but holds no
#: CPU slot.
_held: tuple[int, int] | None = None


class _Places:
    """The CPU slots of all groups."""

    def __init__(self, groups: tuple[Group, ...]) -> None:
        self._folders: list[Path] = []
        self._scratch = scratch()
        places: list[tuple[str, Path | None]] = []
        try:
            for group in groups:
                places += [(group.name, self._folder(group.speed)) for _ in range(group.workers)]
        except BaseException:
            self.close()
            raise
        file = Path(self._scratch.name, "places")
        file.touch()
        self.entry = Entry(str(file), places)

    def _folder(self, speed: float) -> Path | None:
        if speed == 1:
            return None
        folder = cgroups.make(len(self._folders), speed)
        self._folders.append(folder)
        return folder

    def close(self) -> None:
        for folder in self._folders:
            cgroups.remove(folder)
        self._scratch.cleanup()


class _Grouped:
    """A backend whose workers are in groups."""

    def __init__(self, backend: Backend, places: _Places) -> None:
        self._backend = backend
        self._places = places
        self.submit = backend.submit
        if isinstance(backend, Keeper):
            self.within = backend.within

    def shutdown(self) -> None:
        try:
            self._backend.shutdown()
        finally:
            self._places.close()
