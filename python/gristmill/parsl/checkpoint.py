"""Results of tasks on disk: ``<run_dir>/checkpoint/tasks.pkl``, written by one run and read by later ones.

The file is a journal (see the crate of that name): what was appended survives the death of this process at any moment,
and with ``durable`` that of the machine. A journal of pickles is also a stream of pickles: Parsl, and any program that
reads its checkpoints, reads ours. Each entry is the pickle of ``{"hash": str, "exception": None, "result": value}``.

Loading takes entries as bytes and unpickles one when it is asked for: a million open in a second or two. Parsl's own
files are read too; their keys are Parsl's, by which a result is found only where Parsl is installed and knows all types
of the arguments. Of a file with a torn end, only what is torn is lost.
"""

from __future__ import annotations

import logging
import os
import pickle
import pickletools
from typing import IO, TYPE_CHECKING, Any

from gristmill._native import Journal

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

_log = logging.getLogger("parsl.gristmill.memoization")

FOLDER_NAME = "checkpoint"
FILE_NAME = "tasks.pkl"

#: What a journal begins with; a shorter file may be one whose beginning was torn.
_JOURNAL_HEAD = b"\x80\x04C\x0bgristmill\0"
#: Not a result: there is none.
MISSING = object()


def get_all_checkpoints(rundir: str = "runinfo") -> Sequence[str]:
    """Finds the checkpoints of all runs for ``checkpoint_files``, the oldest first; none without such a folder."""
    return [path for run in sorted(_runs(rundir)) if (path := _checkpoint_of(rundir, run))]


def get_last_checkpoint(rundir: str = "runinfo") -> Sequence[str]:
    """Finds the checkpoint of the last run that has one, as a list of at most one, for ``checkpoint_files``."""
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
    """Makes the bytes of one entry; by value where pickle alone cannot. Raises whatever cloudpickle raises."""
    entry = {"hash": hashsum, "exception": None, "result": result}
    try:
        return pickle.dumps(entry, pickle.HIGHEST_PROTOCOL)
    except Exception:
        import cloudpickle

        pickled: bytes = cloudpickle.dumps(entry, pickle.HIGHEST_PROTOCOL)
        return pickled


class CheckpointWriter:
    """The checkpoint of this run; its file is made when it is first written to, even if that is nothing.

    :param run_dir: the run's folder.
    :param durable: whether each append waits for the disk.
    """

    def __init__(self, run_dir: str, durable: bool) -> None:
        self._folder = os.path.join(run_dir, FOLDER_NAME)
        self._durable = durable
        self._journal: Journal | None = None

    def append(self, hashsum: str, entry: bytes) -> None:
        """Appends one entry, or raises ``OSError``."""
        if self._journal is None:
            self._journal = self._open()
        self._journal.append(hashsum.encode(), entry)

    def append_all(self, entries: Iterable[tuple[str, bytes]]) -> None:
        """Appends entries: all, or none and an ``OSError``."""
        if self._journal is None:
            self._journal = self._open()
        self._journal.append_all([(hashsum.encode(), entry) for hashsum, entry in entries])

    def _open(self) -> Journal:
        os.makedirs(self._folder, exist_ok=True)
        return Journal(os.path.join(self._folder, FILE_NAME), self._durable)

    def close(self) -> None:
        """Lets others write the file."""
        if self._journal is not None:
            self._journal.close()


class KnownResults:
    """Results of earlier runs."""

    def __init__(self) -> None:
        self._entries: dict[bytes, bytes] = {}
        self._of_parsl: dict[str, Any] = {}

    def __len__(self) -> int:
        return len(self._entries) + len(self._of_parsl)

    @property
    def has_parsl_keys(self) -> bool:
        """Whether there are results by keys that Parsl made."""
        return bool(self._of_parsl)

    def load(self, path: str | os.PathLike[str]) -> None:
        """Adds those of a checkpoint: a folder or a file. Raises ``BadCheckpoint`` where there is none."""
        from gristmill.parsl.errors import BadCheckpoint

        path = os.fspath(path)
        file = os.path.join(path, FILE_NAME) if os.path.isdir(path) else path
        if not os.path.isfile(file):
            raise BadCheckpoint(f"there is no checkpoint at {file}")
        before = len(self)
        try:
            with open(file, "rb") as stream:
                is_journal = _JOURNAL_HEAD.startswith(stream.read(len(_JOURNAL_HEAD)))
            lost = self._load_journal(file) if is_journal else self._load_pickles(file)
        except (OSError, ValueError) as error:
            raise BadCheckpoint(f"the checkpoint {file} cannot be read: {error}") from error
        _log.info("loaded %s results from %s", len(self) - before, file)
        if lost:
            _log.warning(
                "the last %s bytes of %s are torn or damaged: their results are lost", lost, file
            )

    def _load_journal(self, file: str) -> int:
        entries = Journal.read(file)
        self._entries.update(entries)
        return entries.lost

    def _load_pickles(self, file: str) -> int:
        with open(file, "rb") as stream:
            for entry in _parsl_entries(stream):
                if entry["exception"] is None:
                    self._of_parsl[entry["hash"]] = entry["result"]
            return os.path.getsize(file) - stream.tell()

    def find(self, hashsum: str) -> Any:
        """The result by a key of ours, or ``MISSING``: also where its class is gone."""
        entry = self._entries.get(hashsum.encode())
        if entry is None:
            return MISSING
        try:
            return pickle.loads(entry)["result"]
        except Exception as error:
            _log.warning(
                "a result in a checkpoint cannot be unpickled: its task runs again (%r)", error
            )
            del self._entries[hashsum.encode()]
            return MISSING

    def find_by_parsl_key(self, hashsum: str) -> Any:
        """The result by a key of Parsl's, or ``MISSING``."""
        return self._of_parsl.get(hashsum, MISSING)


def _parsl_entries(stream: IO[bytes]) -> Iterator[dict[str, Any]]:
    """The entries of a file of Parsl's; stops at the first that is torn, the stream there.

    Raises ``ValueError`` for a file that does not begin with an entry.
    """
    while stream.peek(1):  # type: ignore[attr-defined]
        start = stream.tell()
        try:
            entry = pickle.load(stream)
        except Exception as error:
            end = _end_of_pickle(stream, start)
            if end is None and start == 0:
                raise ValueError("it is no stream of pickles") from error
            stream.seek(start if end is None else end)
            if end is None:
                return
            _log.warning(
                "a result in a checkpoint cannot be unpickled: its task runs again (%r)", error
            )
            continue
        if not isinstance(entry, dict) or not entry.keys() >= {"hash", "exception", "result"}:
            raise ValueError("its pickles are not those of a checkpoint")
        yield entry


def _end_of_pickle(stream: IO[bytes], start: int) -> int | None:
    """Where the pickle that begins there ends, or ``None`` if it does not."""
    stream.seek(start)
    try:
        for _ in pickletools.genops(stream):
            pass
    except Exception:
        return None
    return stream.tell()
