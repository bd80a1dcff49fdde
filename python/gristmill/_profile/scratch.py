"""Folders that live as long as their profile, and go with the next one where that was killed."""

from __future__ import annotations

import fcntl
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

PREFIX = "gristmill-profile-"


@contextmanager
def folder(parent: Path | None) -> Iterator[Path]:
    """A new folder, below a folder or that for temporary files, and an absolute path; it goes with the block.

    What profiles have left there that were killed goes first. Who is there still is told by a lock on each folder: this
    process has it, and the guard that it forks, as the program may yet write its notes when the profiler is gone.
    """
    above = Path(tempfile.gettempdir() if parent is None else parent).absolute()
    _sweep(above)
    place, lock = _made(above)
    try:
        yield place
    finally:
        shutil.rmtree(place, ignore_errors=True)
        os.close(lock)


def _made(above: Path) -> tuple[Path, int]:
    """A new folder, and the descriptor by which it is locked."""
    while True:
        place = Path(tempfile.mkdtemp(prefix=PREFIX, dir=above))
        with suppress(FileNotFoundError):
            lock = _opened(place)
            with suppress(OSError):  # a file system without locks: nobody sweeps there either
                fcntl.flock(lock, fcntl.LOCK_EX)
            if place.exists():
                return place, lock
            # Somebody who swept had it before it was locked.
            os.close(lock)


def _sweep(above: Path) -> None:
    """Removes the folders of this user that nobody has locked."""
    for place in above.glob(f"{PREFIX}*"):
        with suppress(OSError):
            lock = _opened(place)
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                if os.fstat(lock).st_uid == os.geteuid():
                    shutil.rmtree(place, ignore_errors=True)
            finally:
                os.close(lock)


def _opened(place: Path) -> int:
    return os.open(place, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
