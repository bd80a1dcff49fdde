"""Notes of several processes: which task crossed which border, and when.

Each process writes to a file of its own that is mapped into memory: a note costs less than a microsecond, and none is
lost when the process is killed, which is how HTEX ends some of its own.
"""

from __future__ import annotations

import mmap
import os
from itertools import count
from pathlib import Path
from struct import Struct
from time import monotonic_ns

#: The task's number, from 1; the border's; nanoseconds of the monotonic clock, which all processes share.
_NOTE = Struct("<QQQ")
#: Of a process; what comes later is not noted. The file takes disk as it is written.
_NOTES_MAX = 500_000
_ENDING = ".notes"


class Notes:
    """Those of this process; any thread may write."""

    def __init__(self, folder: Path) -> None:
        size = _NOTES_MAX * _NOTE.size
        with open(folder / f"{os.getpid()}{_ENDING}", "w+b") as file:
            file.truncate(size)
            self._mapped = mmap.mmap(file.fileno(), size)
        self._places = count()

    def note(self, task: int, border: int, when: int | None = None) -> None:
        """A task crosses a border, now if nothing else is said."""
        place = next(self._places)
        if place < _NOTES_MAX:
            moment = monotonic_ns() if when is None else when
            _NOTE.pack_into(self._mapped, place * _NOTE.size, task, border, moment)


def read(folder: Path) -> dict[int, dict[int, int]]:
    """When each task crossed each border, of all processes."""
    found: dict[int, dict[int, int]] = {}
    for path in folder.glob(f"*{_ENDING}"):
        for task, border, when in _NOTE.iter_unpack(path.read_bytes()):
            if not task:
                break
            found.setdefault(task, {})[border] = when
    return found
