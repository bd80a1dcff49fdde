"""Temporary folders that live as long as their profile. The next profile removes those of killed profiles."""

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
    """Yields a new folder below ``parent`` or the folder for temporary files, as an absolute path; removes it at exit.

    Removes the folders of killed profiles first. A lock on each folder marks a living profile. This process holds the
    lock, and the guard inherits it: if the profiler dies, the program may still write its measurements into the folder.
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
    """Creates a folder. Returns it with the descriptor that locks it."""
    while True:
        place = Path(tempfile.mkdtemp(prefix=PREFIX, dir=above))
        with suppress(FileNotFoundError):
            lock = _opened(place)
            with suppress(OSError):  # a file system without locks, where no process sweeps either
                fcntl.flock(lock, fcntl.LOCK_EX)
            if place.exists():
                return place, lock
            # Another process removed it before it was locked.
            os.close(lock)


def _sweep(above: Path) -> None:
    """Removes this user's folders that no process has locked."""
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
