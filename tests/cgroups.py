"""Control groups of a test's own, of version 2 or 1, and the reason where there can be none."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

_ROOT = Path("/sys/fs/cgroup")
#: What sets a limit in each version.
_FILES = {
    ("memory", 2): "memory.max",
    ("memory", 1): "memory.limit_in_bytes",
    ("cpu", 2): "cpu.max",
    ("cpu", 1): "cpu.cfs_quota_us",
}


def _parent(controller: str) -> tuple[Path, int]:
    """A group that groups with a limit can be made in, and its version."""
    with contextlib.suppress(OSError):
        if controller in (_ROOT / "cgroup.subtree_control").read_text().split():
            return _ROOT, 2
    return _ROOT / controller, 1


@contextlib.contextmanager
def group(controller: str, limit: int) -> Iterator[Path]:
    """Makes a group with a limit, -1 for none; gives the file that a process writes its id into to enter it.

    Skips the test where the machine allows none.
    """
    parent, version = _parent(controller)
    folder = parent / f"gristmill-test-{os.getpid()}"
    text = "max" if limit < 0 and version == 2 else str(limit)
    try:
        folder.mkdir()
        (folder / _FILES[controller, version]).write_text(text)
    except OSError as error:
        with contextlib.suppress(OSError):
            folder.rmdir()
        pytest.skip(f"no control group with a limit of {controller} can be made: {error}")
    try:
        yield folder / "cgroup.procs"
    finally:
        # Its processes are gone once they are reaped, which nobody tells.
        while folder.exists():
            try:
                folder.rmdir()
            except OSError:
                os.sched_yield()
