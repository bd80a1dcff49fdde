"""A file system as slow as that of a busy cluster: a folder seen through FUSE, with a delay for each request.

Read-only. Each look-up, listing, opening and read (at most 128 KiB, as the kernel requests) is answered after a
millisecond; simultaneous requests wait at the same time. The kernel caches the contents of a file until it changes, as
for NFS, and attributes for a second; a new mount has an empty cache.
"""

import importlib
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from time import monotonic, sleep
from typing import Any

from benches import machine
from benches.contexts import environment
from benches.model import Unavailable

WAIT_S = 1e-3
#: The time limit for a mount to appear, and again for it to disappear, seconds.
_CHANGE_MAX_S = 10.0
#: The limit of requests that wait at the same time, which is also the library's default.
_THREADS = 10
_ATTRIBUTES = ("mode", "nlink", "size", "uid", "gid", "atime_ns", "mtime_ns", "ctime_ns")


class Slow:
    """The handlers of the kernel's requests, with the names that the library expects."""

    #: True: times are in nanoseconds.
    use_ns = True

    def __init__(self, folder: str) -> None:
        self._folder = folder

    def _place(self, path: str) -> str:
        sleep(WAIT_S)
        return self._folder + path

    def getattr(self, path: str, handle: int | None = None) -> dict[str, Any]:
        """Returns the attributes of a file."""
        found = os.lstat(self._place(path))
        values = {f"st_{name}": getattr(found, f"st_{name}") for name in _ATTRIBUTES}
        return {name.removesuffix("_ns"): value for name, value in values.items()}

    def readdir(self, path: str, handle: int) -> list[str]:
        """Lists a folder."""
        return [".", "..", *os.listdir(self._place(path))]

    def readlink(self, path: str) -> str:
        """Reads a link."""
        return os.readlink(self._place(path))

    def open(self, path: str, flags: int) -> int:
        """Opens a file."""
        return os.open(self._place(path), os.O_RDONLY)

    def read(self, path: str, size: int, offset: int, handle: int) -> bytes:
        """Reads from a file."""
        sleep(WAIT_S)
        return os.pread(handle, size, offset)

    def release(self, path: str, handle: int) -> int:
        """Closes a file. The kernel does not wait for the answer."""
        os.close(handle)
        return 0


@contextmanager
def mounted(folder: Path, at: Path) -> Iterator[None]:
    """Mounts a folder at another path, with nothing cached."""
    environment.needed("mfusepy")
    at.mkdir(exist_ok=True)
    command = [sys.executable, "-m", "benches.contexts.slow_files", str(folder), str(at)]
    with subprocess.Popen(command, cwd=machine.ROOT, stdin=subprocess.DEVNULL) as server:
        try:
            _wait_until(lambda: os.path.ismount(at) or server.poll() is not None)
            if not os.path.ismount(at):
                raise Unavailable("FUSE cannot be mounted here (/dev/fuse, fusermount3)")
            yield
        finally:
            with suppress(OSError):
                subprocess.run(["fusermount3", "-u", "-z", str(at)], check=False)
            server.terminate()


def _wait_until(is_so: Any) -> None:
    end = monotonic() + _CHANGE_MAX_S
    while not is_so() and monotonic() < end:
        sleep(0.01)


def main() -> None:
    """Serves one mount until it is unmounted."""
    folder, at = sys.argv[1:]
    importlib.import_module("mfusepy").FUSE(
        Slow(folder),
        at,
        foreground=True,
        nothreads=False,
        ro=True,
        auto_cache=True,
        fsname="slow",
        max_threads=_THREADS,
    )


if __name__ == "__main__":
    main()
