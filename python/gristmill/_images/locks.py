"""File locks between the processes of a node, and the times when files were used.

A lock ends when its holder ends, even if the holder crashes. A process that is forked from a holder holds the lock too,
until both have released it or ended: so a worker keeps the images that it uses.
"""

from __future__ import annotations

import errno
import fcntl
import os
import time

#: Errors of a file system that has no locks.
_NONE = (errno.ENOSYS, errno.ENOLCK, errno.EOPNOTSUPP)


class Lock:
    """A lock on a file, which is created if it does not exist."""

    def __init__(self, path: str) -> None:
        self.path = path
        self._descriptor: int | None = _open(path)
        #: True if the file system has locks. Without them every process gets the lock at once.
        self.is_real = True

    def share(self) -> None:
        """Waits until no process holds the lock exclusively, then holds it shared."""
        self._take(fcntl.LOCK_SH)

    def take(self) -> None:
        """Waits until no other process holds the lock, then holds it exclusively."""
        self._take(fcntl.LOCK_EX)

    def try_take(self) -> bool:
        """Takes the lock exclusively if no other process holds it. Returns whether it did."""
        try:
            self._take(fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True

    def release(self) -> None:
        """Releases the lock, which can be taken again."""
        assert self._descriptor is not None, "the lock was given back"
        if self.is_real:
            fcntl.flock(self._descriptor, fcntl.LOCK_UN)

    def _take(self, how: int) -> None:
        while True:
            assert self._descriptor is not None, "the lock was given back"
            try:
                fcntl.flock(self._descriptor, how)
            except OSError as error:
                if error.errno not in _NONE:
                    raise
                self.is_real = False
            if self._is_current():
                return
            # The last holder has removed the file, so the next attempt needs the new file.
            os.close(self._descriptor)
            self._descriptor = _open(self.path)

    def _is_current(self) -> bool:
        assert self._descriptor is not None, "the lock was given back"
        try:
            there = os.stat(self.path)
        except FileNotFoundError:
            return False
        return os.path.samestat(there, os.fstat(self._descriptor))

    def remove(self) -> None:
        """Removes the file of a lock that is held exclusively, and releases the lock."""
        os.unlink(self.path)
        self.close()

    def close(self) -> None:
        """Releases the lock for good; a second call does nothing."""
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None

    def __enter__(self) -> Lock:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _open(path: str) -> int:
    return os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)


def touch(path: str) -> None:
    """Sets the times of a file to now. The clock that the kernel uses is too coarse to order uses."""
    now_ns = time.time_ns()
    os.utime(path, ns=(now_ns, now_ns))
