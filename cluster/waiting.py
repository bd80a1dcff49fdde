"""Checks of processes and ports, and waits for events without a notification."""

from __future__ import annotations

import os
import socket
import time
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

T = TypeVar("T")
#: Seconds between two checks: short compared with the awaited event, long compared with the cost of a check on a busy
#: machine.
_LOOK_S = 0.01


def until(look: Callable[[], T]) -> T:
    """Checks until ``look`` returns something, and returns it. There is no time limit: the test's watchdog sets one."""
    while not (seen := look()):
        time.sleep(_LOOK_S)
    return seen


def listens(host: str, port: int) -> bool:
    """Returns whether a server accepts connections there."""
    with socket.socket() as trial:
        return trial.connect_ex((host, port)) == 0


def states(processes: list[int]) -> dict[int, str]:
    """Returns the kernel's letter for the state of each process that exists."""
    found = {}
    for process in processes:
        try:
            text = Path(f"/proc/{process}/stat").read_text()
        except OSError:
            continue
        found[process] = text.rpartition(")")[2].split()[0]
    return found


def in_namespace_of(process: int) -> list[int]:
    """Returns the processes in the process-id namespace of a process, without it."""
    space = os.readlink(f"/proc/{process}/ns/pid")
    found = []
    for other in map(int, filter(str.isdigit, os.listdir("/proc"))):
        try:
            if other != process and os.readlink(f"/proc/{other}/ns/pid") == space:
                found.append(other)
        except OSError:
            continue
    return found
