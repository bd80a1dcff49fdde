"""The categories of the system calls that threads sleep in, by number.

Numbers are those of Linux, from ``arch/x86/entry/syscalls/syscall_64.tbl`` and ``include/uapi/asm-generic/unistd.h``.
"""

from __future__ import annotations

import platform

from gristmill._profile.categories import Category

_X86_64: dict[Category, tuple[int, ...]] = {
    "poll": (7, 23, 61, 232, 247, 270, 271, 281, 441),
    "receive": (0, 17, 19, 45, 47, 295, 299, 327),
    "send": (1, 18, 20, 44, 46, 296, 307, 328),
    "semaphore": (65, 202, 220, 449),
    "standard library": (35, 230),
}
_AARCH64: dict[Category, tuple[int, ...]] = {
    "poll": (22, 72, 73, 95, 260, 441),
    "receive": (63, 65, 67, 69, 207, 212, 243, 286),
    "send": (64, 66, 68, 70, 206, 211, 269, 287),
    "semaphore": (98, 192, 193, 449),
    "standard library": (101, 115),
}
_RESTART = {"x86_64": 219, "aarch64": 128}
_FUTEX = {"x86_64": 202, "aarch64": 98}

_MACHINE = platform.machine()
_TABLE = _AARCH64 if _MACHINE == "aarch64" else _X86_64
#: The category of each system call that threads sleep in: poll, select, wait; read, recv; write, send; futex, semop;
#: nanosleep.
BY_NUMBER: dict[int, Category] = {
    number: category for category, numbers in _TABLE.items() for number in numbers
}
FUTEX = _FUTEX.get(_MACHINE)
#: The call that continues a sleep after an interruption. It does not tell which call was interrupted.
RESTART = _RESTART.get(_MACHINE)
