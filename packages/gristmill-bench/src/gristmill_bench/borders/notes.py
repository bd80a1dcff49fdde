"""Timestamps from several processes: which task crossed which border, and when.

Each process writes to a file of its own that is mapped into memory. A timestamp costs less than a microsecond, and none
is lost when the process is killed, as HTEX does with some of its own.
"""

from __future__ import annotations

import mmap
import os
from itertools import count
from pathlib import Path
from struct import Struct
from time import monotonic_ns

#: Number of the task, from 1; number of the border; nanoseconds of the monotonic clock, which all processes share.
_NOTE = Struct("<QQQ")
#: Largest number of timestamps of a process; later ones are dropped. The file takes disk space as it is written.
_NOTES_MAX = 500_000
_ENDING = ".notes"


class Notes:
    """The timestamps of this process; any thread may write."""

    def __init__(self, folder: Path) -> None:
        size = _NOTES_MAX * _NOTE.size
        with open(folder / f"{os.getpid()}{_ENDING}", "w+b") as file:
            file.truncate(size)
            self._mapped = mmap.mmap(file.fileno(), size)
        self._places = count()

    def note(self, task: int, border: int, when: int | None = None) -> None:
        """Notes that a task crosses a border, now if no time is given."""
        place = next(self._places)
        if place < _NOTES_MAX:
            moment = monotonic_ns() if when is None else when
            _NOTE.pack_into(self._mapped, place * _NOTE.size, task, border, moment)


def read(folder: Path) -> dict[int, dict[int, int]]:
    """Returns the time at which each task crossed each border, from all processes."""
    found: dict[int, dict[int, int]] = {}
    for path in folder.glob(f"*{_ENDING}"):
        for task, border, when in _NOTE.iter_unpack(path.read_bytes()):
            if not task:
                break
            found.setdefault(task, {})[border] = when
    return found
