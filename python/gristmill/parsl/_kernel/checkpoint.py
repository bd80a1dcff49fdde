"""Results of tasks on disk: ``<run_dir>/checkpoint/tasks.pkl``, written by one run and read by later ones.

The file is a journal (see the ``journal`` crate). Appended entries survive the death of this process at any moment, and
with ``durable`` also a crash of the machine. A journal of pickles is also a stream of pickles, so Parsl, and any
program that reads its checkpoints, can read ours. Each entry is the pickle of ``{"hash": str, "exception": None,
"result": value}``.

Loading only records the offsets of entries. A result is read and unpickled when it is asked for; small entries stay in
memory as bytes. A million entries load in a second or two. Parsl's own files are read too. Their keys are Parsl's, so a
result is found only where Parsl is installed and can hash all types of the arguments. A torn end of a file loses only
the torn entries.
"""

from __future__ import annotations

import logging
import os
import pickle
import pickletools
from itertools import islice
from typing import IO, TYPE_CHECKING, Any

from gristmill import _forked
from gristmill._native import Journal
from gristmill.parsl._kernel.dependencies import FUTURELESS_TYPES
from gristmill.parsl._kernel.memo_files import ResultFile, ResultLost, StoredFuture, result_in

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

_log = logging.getLogger("parsl.gristmill.memoization")

FOLDER_NAME = "checkpoint"
FILE_NAME = "tasks.pkl"

#: The first bytes of a journal. A shorter file may be a journal whose first bytes were torn.
_JOURNAL_HEAD = b"\x80\x04C\x0bgristmill\0"
#: Bytes of a journal before its first entry, and bytes of an entry before its value, without the key: see the crate.
_HEAD_SIZE = 16
_FRAME_SIZE = 15
#: Entries of up to this many bytes stay in memory, if there is room. A hit then reads no file.
_KEPT_SIZE_MAX = 4096
#: Bits of an entry's size, and of its offset. File, offset and size are packed into one number.
_SIZE_BITS, _OFFSET_BITS = 40, 48
#: Stands for the absence of a result.
MISSING = object()


def get_all_checkpoints(rundir: str = "runinfo") -> Sequence[str]:
    """Returns the checkpoints of all runs for ``checkpoint_files``, the oldest first. The list may be empty."""
    return [path for run in sorted(_runs(rundir)) if (path := _checkpoint_of(rundir, run))]


def get_last_checkpoint(rundir: str = "runinfo") -> Sequence[str]:
    """Returns the checkpoint of the last run that has one, as a list of at most one, for ``checkpoint_files``."""
    for run in sorted(filter(str.isdigit, _runs(rundir)), key=int, reverse=True):
        if path := _checkpoint_of(rundir, run):
            return [path]
    return []


def _runs(folder: str) -> list[str]:
    return os.listdir(folder) if os.path.isdir(folder) else []


def _checkpoint_of(folder: str, run: str) -> str | None:
    path = os.path.abspath(os.path.join(folder, run, FOLDER_NAME))
    return path if os.path.isdir(path) else None


def pickle_entry(hashsum: str, result: Any) -> bytes:
    """Returns the bytes of one entry, with classes by value where pickle fails. Raises what pickling raises."""
    entry = {"hash": hashsum, "exception": None, "result": result}
    if type(result) in FUTURELESS_TYPES:
        return _pickled(entry)
    # The result's own methods may fork. The forked child must not write the entry a second time.
    return _forked.guarded(_pickled, entry)


def _pickled(entry: dict[str, Any]) -> bytes:
    try:
        return pickle.dumps(entry, pickle.HIGHEST_PROTOCOL)
    except Exception:
        # It takes long to load.
        from gristmill import _pickling

        return _pickling.dump_plain(entry)


class CheckpointWriter:
    """The checkpoint of this run. The first write makes its file, even a write of no entries.

    :param run_dir: the run's folder.
    :param durable: whether each append waits for the disk.
    """

    def __init__(self, run_dir: str, durable: bool) -> None:
        self._folder = os.path.join(run_dir, FOLDER_NAME)
        self._path = os.path.join(self._folder, FILE_NAME)
        self._durable = durable
        self._journal: Journal | None = None
        self._file: ResultFile | None = None
        #: The offset at which the next entry begins.
        self._end = 0

    def append_all(
        self, entries: Iterable[tuple[str, bytes]], wanted: Callable[[str], bool]
    ) -> list[StoredFuture]:
        """Appends all entries, or none and raises ``OSError``.

        :param wanted: says for the key of an entry whether its location is returned.
        :return: the locations of the wanted entries.
        """
        if self._journal is None:
            self._journal = self._open()
        pairs = [(hashsum.encode(), entry) for hashsum, entry in entries]
        size = sum(_FRAME_SIZE + len(key) + len(entry) for key, entry in pairs)
        # No call happens before the append: during a call, a signal handler could append other entries.
        end = self._end
        self._end = end + size
        try:
            self._journal.append_all(pairs)
        except OSError:
            self._end -= size
            raise
        places = []
        for key, entry in pairs:
            start = end + _FRAME_SIZE + len(key)
            end = start + len(entry)
            if wanted(key.decode()):
                places.append(StoredFuture(key.decode(), self._reader(), start, len(entry)))
        return places

    def _open(self) -> Journal:
        os.makedirs(self._folder, exist_ok=True)
        journal = Journal(self._path, self._durable)
        self._end = os.path.getsize(self._path)
        return journal

    def _reader(self) -> ResultFile:
        if self._file is None:
            self._file = ResultFile(self._path)
        return self._file

    def close(self) -> None:
        """Closes the file, so that others can write it."""
        if self._journal is not None:
            self._journal.close()


class KnownResults:
    """Results of earlier runs: small ones as bytes, others as their locations in files.

    :param limit: bytes that may be in memory.
    :param entries_max: results that may be known. Beyond it, the results that were loaded first are forgotten.
    """

    def __init__(self, limit: int = 1 << 24, entries_max: int = 1 << 62) -> None:
        self._left = limit
        #: Bytes of results in memory.
        self.size = 0
        self._entries_max = entries_max
        #: With more entries than this, the first ones are forgotten before the rest of a file is loaded.
        self._look_at = entries_max + entries_max // 8
        self._files: list[ResultFile] = []
        self._entries: dict[bytes, bytes | int] = {}
        self._of_parsl: dict[str, int] = {}
        self._has_forgotten = False

    def __len__(self) -> int:
        return len(self._entries) + len(self._of_parsl)

    @property
    def has_parsl_keys(self) -> bool:
        """True if there are results under keys that Parsl made."""
        return bool(self._of_parsl)

    def load(self, path: str | os.PathLike[str]) -> None:
        """Adds the results of a checkpoint folder or file. Raises ``BadCheckpoint`` if it is missing or unreadable."""
        from gristmill.parsl._kernel.errors import BadCheckpoint

        path = os.fspath(path)
        file = os.path.join(path, FILE_NAME) if os.path.isdir(path) else path
        if not os.path.isfile(file):
            raise BadCheckpoint(f"there is no checkpoint at {file}")
        before = len(self)
        try:
            with open(file, "rb") as stream:
                is_journal = _JOURNAL_HEAD.startswith(stream.read(len(_JOURNAL_HEAD)))
            self._files.append(ResultFile(os.path.abspath(file)))
            lost = self._load_journal(file) if is_journal else self._load_pickles(file)
        except (OSError, ValueError) as error:
            raise BadCheckpoint(f"the checkpoint {file} cannot be read: {error}") from error
        _log.info("loaded %s results from %s", len(self) - before, file)
        if lost:
            _log.warning(
                "the last %s bytes of %s are torn or damaged: their results are lost", lost, file
            )
        self._bound_entries()
        if self._has_forgotten:
            self._has_forgotten = False
            _log.warning(
                "memory has no room for all results of the checkpoints: the tasks of the oldest run again"
            )

    def _load_journal(self, file: str) -> int:
        entries, look_at = Journal.read(file), self._look_at
        known, base, end = self._entries, self._base(), _HEAD_SIZE
        for key, entry in entries:
            start = end + _FRAME_SIZE + len(key)
            size = len(entry)
            end = start + size
            if size <= _KEPT_SIZE_MAX and size <= self._left:
                known[key] = entry
                self._left -= size
                self.size += size
            else:
                known[key] = base | start << _SIZE_BITS | size
            if len(known) > look_at:
                self._bound_entries()
        return entries.lost

    def _load_pickles(self, file: str) -> int:
        base, look_at = self._base(), self._look_at
        with open(file, "rb") as stream:
            for entry, start, end in _parsl_entries(stream):
                if entry["exception"] is None:
                    self._of_parsl[entry["hash"]] = base | start << _SIZE_BITS | (end - start)
                    if len(self._of_parsl) > look_at:
                        self._bound_entries()
            return os.path.getsize(file) - stream.tell()

    def _base(self) -> int:
        """Returns the number of the last file, shifted to its place in a packed location."""
        return (len(self._files) - 1) << (_OFFSET_BITS + _SIZE_BITS)

    def _bound_entries(self) -> None:
        too_many = len(self) - self._entries_max
        if too_many <= 0:
            return
        self._has_forgotten = True
        tables: list[dict[Any, Any]] = [self._entries, self._of_parsl]
        for known in tables:
            oldest = list(islice(known, too_many))
            too_many -= len(oldest)
            for key in oldest:
                entry = known.pop(key)
                if isinstance(entry, bytes):
                    self.size -= len(entry)
                    self._left += len(entry)

    def _stored(self, key: str, place: int) -> StoredFuture:
        size = place & ((1 << _SIZE_BITS) - 1)
        offset = place >> _SIZE_BITS & ((1 << _OFFSET_BITS) - 1)
        return StoredFuture(key, self._files[place >> _SIZE_BITS + _OFFSET_BITS], offset, size)

    def place_of(self, hashsum: str) -> StoredFuture | None:
        """Returns the location of the result with a key of ours, or ``None`` if it is in memory or unknown."""
        entry = self._entries.get(hashsum.encode())
        return self._stored(hashsum, entry) if isinstance(entry, int) else None

    def place_by_parsl_key(self, hashsum: str) -> StoredFuture | None:
        """Returns the location of the result with a key of Parsl's, or ``None``."""
        place = self._of_parsl.get(hashsum)
        return None if place is None else self._stored(hashsum, place)

    def find(self, hashsum: str) -> Any:
        """Returns the result with a key of ours, or ``MISSING``, also if its class or its file no longer exists."""
        entry = self._entries.get(hashsum.encode())
        if entry is None:
            return MISSING
        try:
            if isinstance(entry, int):
                return self._stored(hashsum, entry).load()
            return result_in(entry, hashsum)
        except ResultLost as error:
            _warn_of_lost(error)
            self._entries.pop(hashsum.encode(), None)
            return MISSING

    def find_by_parsl_key(self, hashsum: str) -> Any:
        """Returns the result with a key of Parsl's, or ``MISSING``, also if its class or its file no longer exists."""
        stored = self.place_by_parsl_key(hashsum)
        if stored is None:
            return MISSING
        try:
            return stored.load()
        except ResultLost as error:
            _warn_of_lost(error)
            self._of_parsl.pop(hashsum, None)
            return MISSING


def _warn_of_lost(error: ResultLost) -> None:
    _log.warning("a result in a checkpoint is lost and its task runs again: %s", error)


def _parsl_entries(stream: IO[bytes]) -> Iterator[tuple[dict[str, Any], int, int]]:
    """Yields the entries of a file of Parsl's with their start and end offsets.

    Stops at the first torn entry and leaves the stream there. Raises ``ValueError`` for a file that does not begin with
    an entry.
    """
    while stream.peek(1):  # type: ignore[attr-defined]
        start = stream.tell()
        try:
            entry = pickle.load(stream)
        except Exception as error:
            end = _end_of_pickle(stream, start)
            if end is None and start == 0:
                raise ValueError("it is not a stream of pickles") from error
            stream.seek(start if end is None else end)
            if end is None:
                return
            _log.warning(
                "a result in a checkpoint cannot be unpickled: its task runs again (%r)", error
            )
            continue
        if not isinstance(entry, dict) or not entry.keys() >= {"hash", "exception", "result"}:
            raise ValueError("its pickles are not those of a checkpoint")
        yield entry, start, stream.tell()


def _end_of_pickle(stream: IO[bytes], start: int) -> int | None:
    """Returns the end offset of the pickle that begins at ``start``, or ``None`` if it has no end."""
    stream.seek(start)
    try:
        for _ in pickletools.genops(stream):
            pass
    except Exception:
        return None
    return stream.tell()
