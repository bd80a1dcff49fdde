"""Control groups of version 2 or 1 for one test, and a skip where none can be made."""

from __future__ import annotations

import contextlib
import fcntl
import os
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

_ROOT = Path("/sys/fs/cgroup")
_PREFIX = "gristmill-test-"
#: Files that set a limit, for each version.
_FILES = {
    ("memory", 2): "memory.max",
    ("memory", 1): "memory.limit_in_bytes",
    ("cpu", 2): "cpu.max",
    ("cpu", 1): "cpu.cfs_quota_us",
}


def _parent(controller: str) -> tuple[Path, int]:
    """Returns the parent for groups with a limit, and the version of control groups."""
    with contextlib.suppress(OSError):
        if controller in (_ROOT / "cgroup.subtree_control").read_text().split():
            return _ROOT, 2
    return _ROOT / controller, 1


def _claim(folder: Path) -> int | None:
    """Locks a group as long as the descriptor that is returned is open; ``None`` if another run holds or removed it."""
    try:
        held = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    except OSError:
        return None
    try:
        fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
        os.stat(folder)
    except OSError:
        os.close(held)
        return None
    return held


def _remove_leftovers(parent: Path) -> None:
    """Removes the groups of runs that were killed: no run holds them, and they have no process."""
    for folder in parent.glob(f"{_PREFIX}*"):
        if (held := _claim(folder)) is not None:
            with contextlib.suppress(OSError):
                folder.rmdir()
            os.close(held)


def _make(parent: Path) -> tuple[Path, int]:
    """Makes a group with a name that no other run has; returns it with the descriptor that holds it."""
    while True:
        folder = parent / f"{_PREFIX}{os.getpid()}-{os.urandom(4).hex()}"
        folder.mkdir()
        # Another run may take it for a leftover before it is claimed.
        if (held := _claim(folder)) is not None:
            return folder, held


@contextlib.contextmanager
def group(controller: str, limit: int) -> Iterator[Path]:
    """Makes a group with a limit, -1 for none; yields the file that a process writes its id into to enter the group.

    Skips the test where the machine allows no groups.
    """
    parent, version = _parent(controller)
    text = "max" if limit < 0 and version == 2 else str(limit)
    with contextlib.ExitStack() as stack:
        try:
            _remove_leftovers(parent)
            folder, held = _make(parent)
            stack.callback(os.close, held)
            stack.callback(_remove, folder)
            (folder / _FILES[controller, version]).write_text(text)
        except OSError as error:
            pytest.skip(f"no control group with a limit of {controller} can be made: {error}")
        yield folder / "cgroup.procs"


def _remove(folder: Path) -> None:
    """Removes a group; waits until its processes are reaped, for which the kernel sends no event."""
    while folder.exists():
        try:
            folder.rmdir()
        except OSError:
            time.sleep(0.001)
