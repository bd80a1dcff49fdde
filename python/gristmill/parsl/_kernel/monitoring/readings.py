"""The resource use of this process and its children at one moment, read without another process or library."""

from __future__ import annotations

import os
import resource
import time
from typing import NamedTuple

from gristmill import _resources

_PAGE_SIZE = os.sysconf("SC_PAGE_SIZE")
_TICKS_PER_S = os.sysconf("SC_CLK_TCK")
_PERCENT_PER_BYTE = 100 / _resources.memory_of_machine()

#: Names of process states in Parsl's tables.
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
    """Counters at one moment, from the start of the process. Times are in seconds, memory and files in bytes."""

    #: Seconds since the epoch.
    at: float
    time_user: float
    time_system: float
    memory_virtual: int
    memory_resident: int
    #: The resident share of this machine's memory.
    memory_percent: float
    #: Bytes of read and write calls, whether or not they reached a disk.
    disk_read: int
    disk_write: int
    switches_voluntary: int
    switches_involuntary: int
    #: Living descendants, which all fields above include.
    children_count: int
    status: str
    #: The number of the CPU that the process ran on last.
    cpu: int


def take() -> Reading:
    """Reads this process alone. Times and switches include children that have ended and were waited for."""
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
    """Reads this process and all of its descendants."""
    reading = take()
    waiting = _children_of("self")
    while waiting:
        process = waiting.pop()
        try:
            reading = _with_process(reading, process)
            waiting += _children_of(process)
        except _UNREADABLE:
            continue  # The process has just ended.
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
        return 0, 0  # The kernel was built without this file.


def _files(text: bytes) -> tuple[int, int]:
    words = text.split(maxsplit=4)
    return int(words[1]), int(words[3])


def _fields(text: bytes) -> list[bytes]:
    """Returns the fields of ``stat`` from the state on. The name before it may contain any characters."""
    return text[text.rindex(b")") + 1 :].split()


def _read(path: str) -> bytes:
    file = os.open(path, os.O_RDONLY)
    try:
        return os.read(file, 4096)
    finally:
        os.close(file)


#: Files of this process under ``/proc``, kept open, because opening one takes longer than reading it.
_open_files: dict[str, int] = {}


def _read_own(name: str, beginning: bytes) -> bytes:
    """Reads such a file. An unexpected beginning means that the task has closed it and the number is reused."""
    text = os.pread(_open_files[name], 4096, 0) if name in _open_files else b""
    if not text.startswith(beginning):
        _open_files[name] = os.open(f"/proc/self/{name}", os.O_RDONLY)
        text = os.pread(_open_files[name], 4096, 0)
    return text


def _close_in_child() -> None:
    """Closes the files in a fork, because they belong to its parent."""
    while _open_files:
        os.close(_open_files.popitem()[1])


os.register_at_fork(after_in_child=_close_in_child)
