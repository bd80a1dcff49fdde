"""Objects that their process counts as long as they live."""

from __future__ import annotations

import gc
import weakref
from typing import Any, ClassVar

import gristmill


class Tracked:
    """An object that this process counts as long as it lives."""

    alive: ClassVar[weakref.WeakSet[Tracked]] = weakref.WeakSet()

    def __init__(self, size: int) -> None:
        self._size = size
        self.alive.add(self)

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self.alive.add(self)

    def size(self) -> int:
        return self._size


def count_alive(_: object = None) -> int:
    """Returns how many tracked objects are alive in this process."""
    gc.collect()
    return len(Tracked.alive)


def count_after_nested_submissions(count: int) -> int:
    """Submits a task for each of ``count`` objects; returns how many are alive in this process afterwards."""
    executor = gristmill.current_executor()
    for size in range(count):
        assert executor.submit(Tracked(size).size).result() == size
    return count_alive()
