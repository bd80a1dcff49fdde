"""File-based event that a program shares with its workers. Tasks in tests of other libraries wait for it."""

from __future__ import annotations

import tempfile
import time
from pathlib import Path


class Event:
    """An event with the interface of ``threading.Event`` that can be sent to other processes."""

    def __init__(self) -> None:
        self._path = Path(tempfile.mkdtemp(prefix="gristmill-event-")) / "set"

    def set(self) -> None:
        """Sets the event, which releases all waiting tasks."""
        self._path.touch()

    def clear(self) -> None:
        """Clears the event, so that later calls of ``wait`` block again."""
        self._path.unlink(missing_ok=True)

    def is_set(self) -> bool:
        """Returns whether the event is set."""
        return self._path.exists()

    def wait(self, timeout: float | None = None) -> bool:
        """Waits until the event is set, or for ``timeout`` seconds. Returns whether it is set."""
        end = None if timeout is None else time.monotonic() + timeout
        while not self.is_set() and (end is None or time.monotonic() < end):
            time.sleep(0.01)
        return self.is_set()
