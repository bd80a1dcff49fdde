"""What this process and its children use at one moment, read from the kernel; without a process or a library for it."""

from __future__ import annotations

import os
import resource
import time
from typing import NamedTuple

_PAGE_SIZE = os.sysconf("SC_PAGE_SIZE")
_TICKS_PER_S = os.sysconf("SC_CLK_TCK")
_PERCENT_PER_BYTE = 100 / (_PAGE_SIZE * os.sysconf("SC_PHYS_PAGES"))

#: What Parsl's tables call the states of a process.
_STATES = {
    b"R": "running",
    b"S": "sleeping",
    b"D": "disk-sleep",
    b"T": "stopped",
    b"t": "tracing-stop",
    b"I": "idle",
}
#: Fields of a process's ``stat``, counted from its state.
_USER, _SYSTEM, _USER_OF_ENDED, _SYSTEM_OF_ENDED, _VIRTUAL, _RESIDENT, _CPU = (
    11,
    12,
    13,
    14,
    20,
    21,
    36,
)
_UNREADABLE = (OSError, ValueError, IndexError)


class Reading(NamedTuple):
    """One moment, counted from the start of the process; times in seconds, memory and files in bytes."""

    #: Seconds since the epoch.
    at: float
    time_user: float
    time_system: float
    memory_virtual: int
    memory_resident: int
    #: The share of this machine's memory that is resident.
    memory_percent: float
    #: What was read and written by calls, whether or not it reached a disk.
    disk_read: int
    disk_write: int
    switches_voluntary: int
    switches_involuntary: int
    #: Living descendants, which are in all of the above.
    children_count: int
    status: str
    #: The number of the processor that the process ran on last.
    cpu: int


def take() -> Reading:
    """Reads this process alone; of children that have ended and were waited for, the times and switches count."""
    mine = resource.getrusage(resource.RUSAGE_SELF)
    ended = resource.getrusage(resource.RUSAGE_CHILDREN)
    status, cpu, virtual, resident = _memory()
    read, written = _own_files()
    return Reading(
        time.time(),
        mine.ru_utime + ended.ru_utime,
        mine.ru_stime + ended.ru_stime,
        virtual,
        resident,
        resident * _PERCENT_PER_BYTE,
        read,
        written,
        mine.ru_nvcsw + ended.ru_nvcsw,
        mine.ru_nivcsw + ended.ru_nivcsw,
        0,
        status,
        cpu,
    )


def take_with_descendants() -> Reading:
    """Reads this process and all that come from it."""
    reading = take()
    waiting = _children_of("self")
    while waiting:
        process = waiting.pop()
        try:
            reading = _with_process(reading, process)
            waiting += _children_of(process)
        except _UNREADABLE:
            continue  # It has just ended.
    return reading


def _with_process(reading: Reading, process: str) -> Reading:
    fields = _fields(_read(f"/proc/{process}/stat"))
    read, written = _files(_read(f"/proc/{process}/io"))
    resident = int(fields[_RESIDENT]) * _PAGE_SIZE
    user = int(fields[_USER]) + int(fields[_USER_OF_ENDED])
    system = int(fields[_SYSTEM]) + int(fields[_SYSTEM_OF_ENDED])
    return reading._replace(
        time_user=reading.time_user + user / _TICKS_PER_S,
        time_system=reading.time_system + system / _TICKS_PER_S,
        memory_virtual=reading.memory_virtual + int(fields[_VIRTUAL]),
        memory_resident=reading.memory_resident + resident,
        memory_percent=reading.memory_percent + resident * _PERCENT_PER_BYTE,
        disk_read=reading.disk_read + read,
        disk_write=reading.disk_write + written,
        children_count=reading.children_count + 1,
    )


def _children_of(process: str) -> list[str]:
    children: list[str] = []
    for thread in os.listdir(f"/proc/{process}/task"):
        try:
            children += _read(f"/proc/{process}/task/{thread}/children").decode().split()
        except OSError:
            continue  # The thread has just ended, or the kernel was built without these files.
    return children


def _memory() -> tuple[str, int, int, int]:
    try:
        fields = _fields(_read_own("stat", b"%d (" % os.getpid()))
        resident = int(fields[_RESIDENT]) * _PAGE_SIZE
        return _STATES[fields[0]], int(fields[_CPU]), int(fields[_VIRTUAL]), resident
    except (*_UNREADABLE, KeyError):
        return "running", -1, 0, 0


def _own_files() -> tuple[int, int]:
    try:
        return _files(_read_own("io", b"rchar: "))
    except _UNREADABLE:
        return 0, 0  # The kernel was built without it.


def _files(text: bytes) -> tuple[int, int]:
    words = text.split(maxsplit=4)
    return int(words[1]), int(words[3])


def _fields(text: bytes) -> list[bytes]:
    """The fields of ``stat`` from the state on: what is before it, the name, may hold anything."""
    return text[text.rindex(b")") + 1 :].split()


def _read(path: str) -> bytes:
    file = os.open(path, os.O_RDONLY)
    try:
        return os.read(file, 4096)
    finally:
        os.close(file)


#: Files of this process under ``/proc``, kept open: to open one takes longer than to read it.
_open_files: dict[str, int] = {}


def _read_own(name: str, beginning: bytes) -> bytes:
    """Reads such a file. What does not begin as it has to is another file: the task has closed ours."""
    text = os.pread(_open_files[name], 4096, 0) if name in _open_files else b""
    if not text.startswith(beginning):
        _open_files[name] = os.open(f"/proc/self/{name}", os.O_RDONLY)
        text = os.pread(_open_files[name], 4096, 0)
    return text


def _close_in_child() -> None:
    """A fork's files are still those of its parent."""
    while _open_files:
        os.close(_open_files.popitem()[1])


os.register_at_fork(after_in_child=_close_in_child)
