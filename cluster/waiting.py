"""Looking at processes and ports, and waiting for what nobody announces."""

from __future__ import annotations

import os
import socket
import time
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

T = TypeVar("T")
#: Between two looks: short beside what is waited for, long beside what a look costs on a busy machine.
_LOOK_S = 0.01


def until(look: Callable[[], T]) -> T:
    """Looks until there is something, and gives it. It has no limit of time: the test's watchdog is it."""
    while not (seen := look()):
        time.sleep(_LOOK_S)
    return seen


def listens(host: str, port: int) -> bool:
    """Whether somebody takes connections there."""
    with socket.socket() as trial:
        return trial.connect_ex((host, port)) == 0


def states(processes: list[int]) -> dict[int, str]:
    """The kernel's letter for the state of each process that is there."""
    found = {}
    for process in processes:
        try:
            text = Path(f"/proc/{process}/stat").read_text()
        except OSError:
            continue
        found[process] = text.rpartition(")")[2].split()[0]
    return found


def in_namespace_of(process: int) -> list[int]:
    """The processes that share the process-id namespace of one, without it."""
    space = os.readlink(f"/proc/{process}/ns/pid")
    found = []
    for other in map(int, filter(str.isdigit, os.listdir("/proc"))):
        try:
            if other != process and os.readlink(f"/proc/{other}/ns/pid") == space:
                found.append(other)
        except OSError:
            continue
    return found
