"""The durable record of what tasks did: their processes append to one file, which survives all of them.

A record has 16 bytes, and the file only such records. So no record crosses a page, and a kill cannot cut one: the kernel
looks for signals only between the pages of a write.
"""

from __future__ import annotations

import os
import struct
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

#: Marks of a record: a task begins, a task ends, the function of a task is loaded.
BEGIN, END, LOAD = range(3)
_RECORD = struct.Struct("=QII")
#: File descriptors of this process, by path.
_opened: dict[str, int] = {}


@dataclass(frozen=True)
class Note:
    """A record: the task, its mark, and the process that wrote it."""

    number: int
    mark: int
    process: int


@dataclass
class Evidence:
    """Counts of the records of each task."""

    begun: Counter[int] = field(default_factory=Counter)
    ended: Counter[int] = field(default_factory=Counter)
    loaded: Counter[int] = field(default_factory=Counter)
    #: Tasks that ended in a process where they had not begun.
    strayed: set[int] = field(default_factory=set)


def note(path: str, mark: int, number: int) -> None:
    """Appends a record."""
    descriptor = _opened.get(path)
    if descriptor is None:
        descriptor = _opened[path] = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    os.write(descriptor, _RECORD.pack(number, mark, os.getpid()))


def read(path: Path) -> Iterator[Note]:
    """Reads the records in the order in which they were written."""
    if path.exists():
        for number, mark, process in _RECORD.iter_unpack(path.read_bytes()):
            yield Note(number, mark, process)


def evidence_of(notes: Iterable[Note]) -> Evidence:
    """Counts records."""
    found = Evidence()
    processes: dict[int, set[int]] = {}
    for one in notes:
        if one.mark == BEGIN:
            found.begun[one.number] += 1
            processes.setdefault(one.number, set()).add(one.process)
        elif one.mark == LOAD:
            found.loaded[one.number] += 1
        else:
            found.ended[one.number] += 1
            if one.process not in processes.get(one.number, ()):
                found.strayed.add(one.number)
    return found
