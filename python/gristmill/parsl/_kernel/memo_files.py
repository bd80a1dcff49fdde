"""Results on disk: their locations in checkpoints, and the file of results that are in no checkpoint."""

from __future__ import annotations

import os
import pickle
import threading
from concurrent.futures import Future
from concurrent.futures._base import FINISHED
from typing import Any, ClassVar

from gristmill._condition import CONDITION

#: Maximum number of files that are held open, so that a checkpoint can be read after its name was removed. Other files
#: are opened for each read: a program may load thousands.
_OPEN_MAX = 64


class ResultLost(Exception):
    """A remembered result that can no longer be read from its file. Its call runs again."""


class ResultFile:
    """A file from which results are read by offset.

    :param path: of a checkpoint.
    """

    _open_count: ClassVar[int] = 0

    def __init__(self, path: str) -> None:
        self.path = path
        self._descriptor: int | None = None
        if ResultFile._open_count < _OPEN_MAX:
            self._hold(os.open(path, os.O_RDONLY | os.O_CLOEXEC))

    def _hold(self, descriptor: int) -> None:
        self._descriptor = descriptor
        ResultFile._open_count += 1

    def __del__(self) -> None:
        if self._descriptor is not None:
            ResultFile._open_count -= 1
            os.close(self._descriptor)

    def read(self, offset: int, size: int) -> bytes:
        """Reads bytes. Raises ``ResultLost`` if they do not exist."""
        try:
            if self._descriptor is not None:
                data = _read_all(self._descriptor, offset, size)
            else:
                descriptor = os.open(self.path, os.O_RDONLY | os.O_CLOEXEC)
                try:
                    data = _read_all(descriptor, offset, size)
                finally:
                    os.close(descriptor)
        except OSError as error:
            raise ResultLost(f"{self.path} cannot be read: {error}") from error
        if len(data) != size:
            raise ResultLost(f"{self.path} is shorter than it was")
        return data

    def load(self, key: str, offset: int, size: int) -> Any:
        """Reads an entry and returns its result. Raises ``ResultLost``."""
        return result_in(self.read(offset, size), key)


def _read_all(descriptor: int, offset: int, size: int) -> bytes:
    """Reads ``size`` bytes, or fewer at the end of the file. Repeats the read: one call returns at most 2 GB."""
    data = os.pread(descriptor, size, offset)
    if len(data) == size or not data:
        return data
    parts = [data]
    done = len(data)
    while done < size and (data := os.pread(descriptor, size - done, offset + done)):
        parts.append(data)
        done += len(data)
    return b"".join(parts)


def result_in(data: bytes, key: str) -> Any:
    """Returns the result in the bytes of an entry. Raises ``ResultLost`` if they are no entry with this key."""
    try:
        entry = pickle.loads(data)
        if entry["hash"] == key:
            return entry["result"]
    except Exception as error:
        raise ResultLost(f"it cannot be unpickled: {error!r}") from error
    raise ResultLost("its file was overwritten")


class SpillFile(ResultFile):
    """A file without a name for results that are in no checkpoint. The system frees it when the process ends.

    It is in the directory where the engine spills payloads when memory is full, and uses up to half of the free space
    there.
    """

    def __init__(self) -> None:
        self.path = "the file of remembered results"
        self._descriptor = None
        #: Reentrant, because a signal handler may append during an append.
        self._lock = threading.RLock()
        self._process = os.getpid()
        self._end = 0
        self._room = 0
        self._is_made = False

    def append(self, data: bytes) -> int | None:
        """Writes bytes and returns their offset, or ``None`` if there is no disk, or no room."""
        size = len(data)
        with self._lock:
            if not self._is_made:
                self._is_made = True
                self._make()
            # A forked child shares this file, and would overwrite what its parent writes.
            if self._process != os.getpid() or self._end + size > self._room:
                return None
            # Reserved by statements without a call, so that no signal handler runs between them.
            offset = self._end
            self._end = offset + size
            try:
                self._write(data, offset)
            except OSError:
                if self._end == offset + size:
                    self._end = offset
                return None
        return offset

    def _write(self, data: bytes, offset: int) -> None:
        assert self._descriptor is not None
        view = memoryview(data)
        while view:
            count = os.pwrite(self._descriptor, view, offset)
            view, offset = view[count:], offset + count

    def _make(self) -> None:
        from gristmill import _native

        place, _ = _native.spill_place()
        if place is None:
            return
        directory, room = place
        try:
            self._hold(_open_nameless(directory))
        except OSError:
            return
        self.path, self._room = f"the file of remembered results in {directory}", room


def _open_nameless(directory: os.PathLike[str]) -> int:
    """Opens a new file that has no name, or has lost its name already."""
    import tempfile

    flags = os.O_RDWR | os.O_CLOEXEC
    try:
        return os.open(directory, flags | os.O_TMPFILE, 0o600)
    except OSError:
        # Some file systems do not support files without a name.
        descriptor, path = tempfile.mkstemp(prefix="gristmill-results-", dir=directory)
        os.unlink(path)
        return descriptor


class StoredFuture(Future[Any]):
    """The future of a call whose result is on disk. Each read of the result reads the file, and nothing is kept.

    :param key: of the call.
    :param file: the file of the entry with the result, which is ``size`` bytes from ``offset`` on.
    """

    # The state is final: none of these fields ever changes.
    _state = FINISHED
    _exception = None
    _condition: Any = CONDITION
    _waiters: Any = ()
    _done_callbacks: Any = ()

    def __init__(self, key: str, file: ResultFile, offset: int, size: int) -> None:
        self._place = (key, file, offset, size)

    @property
    def key(self) -> str:
        """The key in the entry."""
        return self._place[0]

    def load(self) -> Any:
        """Reads the result. Raises ``ResultLost``."""
        key, file, offset, size = self._place
        return file.load(key, offset, size)

    def entry(self) -> bytes:
        """Reads the bytes of the entry. Raises ``ResultLost``."""
        _, file, offset, size = self._place
        return file.read(offset, size)

    @property
    def _result(self) -> Any:  # type: ignore[override]
        return self.load()
