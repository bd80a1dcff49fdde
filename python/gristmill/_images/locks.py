"""Locks between the processes of a node, by files, and when a file was used. Locks end with whoever holds them, however
that ends.

A process that was forked by a holder holds the lock too, until both have given it back or have ended: workers keep what
they use.
"""

from __future__ import annotations

import errno
import fcntl
import os
import time

#: A file system without locks.
_NONE = (errno.ENOSYS, errno.ENOLCK, errno.EOPNOTSUPP)


class Lock:
    """A lock on a file, which is made if it is not there."""

    def __init__(self, path: str) -> None:
        self.path = path
        self._descriptor: int | None = _open(path)
        #: Whether this file system has locks; where it has none, whoever asks gets one.
        self.is_real = True

    def share(self) -> None:
        """Waits until nobody has it alone; then nobody can have it alone."""
        self._take(fcntl.LOCK_SH)

    def take(self) -> None:
        """Waits until nobody else has it; then nobody else can have it."""
        self._take(fcntl.LOCK_EX)

    def try_take(self) -> bool:
        """Takes it if nobody else has it."""
        try:
            self._take(fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True

    def release(self) -> None:
        """Lets others have it; it can be taken again."""
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
            # Its last holder has removed it: the next one is another file.
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
        """Removes the file of a lock that is held alone, and gives it back."""
        os.unlink(self.path)
        self.close()

    def close(self) -> None:
        """Gives it back; once more does nothing."""
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
    """Says that a file was used now. Files have the time of the system's tick otherwise, and uses would tie."""
    now_ns = time.time_ns()
    os.utime(path, ns=(now_ns, now_ns))
