"""Zip archives that several processes write concurrently.

A writer locks the archive, against this module and against Parsl, which uses the same lock: ``flock`` on a file with
the archive's name and ``.lock``. Nothing stops other programs from changing the archive meanwhile.

Adding a member overwrites the archive's list of members, which is at its end, and writes a new list after the new
member. A process killed in between would lose every member. The old list is therefore kept in a file next to the
archive, ``.undo``, until the new list is written. The next process that finds an unreadable archive puts it back.
"""

from __future__ import annotations

import errno
import fcntl
import os
import shutil
import struct
import zipfile
import zlib
from contextlib import contextmanager, suppress

from gristmill.parsl._kernel.staging.arrival import PIECE_BYTES, arriving, make_directory_of
from gristmill.parsl._kernel.staging.errors import StagingError, ZipFileError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

#: Header of the kept list: a magic number, and the offset of the list in the archive.
_UNDO_HEADER = struct.Struct("<8sQ")
_UNDO_MAGIC = b"gmzipund"

#: Exceptions from an archive that is missing or damaged, or that uses a feature Python lacks.
_UNREADABLE = (
    OSError,
    zipfile.BadZipFile,
    zlib.error,
    struct.error,
    EOFError,
    NotImplementedError,
    ValueError,
)

#: Error numbers if no lock file can be made: no write permission, a read-only file system, or a missing directory.
_NO_PLACE_FOR_A_LOCK = (errno.EACCES, errno.EPERM, errno.EROFS, errno.ENOENT)

#: The flag of a member that needs a password.
_ENCRYPTED = 1


def add_member(archive: str, member: str, source: str) -> None:
    """Adds a file to an archive, which is made if it is missing. A member of that name is replaced.

    On failure the archive stays unchanged. Raises ``StagingError`` and ``ZipFileError``.
    """
    try:
        make_directory_of(archive)
        with _locked(archive, fcntl.LOCK_EX):
            _repair(archive)
            try:
                _append(archive, member, source)
            except BaseException:
                _undo(archive)
                raise
            os.unlink(_undo_path(archive))
    except _UNREADABLE as failure:
        reason = f"{type(failure).__name__}: {failure}"
        raise StagingError(source, f"zip:{archive}/{member}", reason) from failure


def extract_member(archive: str, member: str, target: str) -> None:
    """Copies a member of an archive to a path. Raises ``StagingError`` and ``ZipFileError``."""
    url = f"zip:{archive}/{member}"
    try:
        # An archive that is being written has such a file too, until the lock is free.
        with _locked(archive, fcntl.LOCK_SH):
            is_left_over = os.path.exists(_undo_path(archive))
        if is_left_over:
            with _locked(archive, fcntl.LOCK_EX):
                _repair(archive)
        with _locked(archive, fcntl.LOCK_SH), zipfile.ZipFile(archive) as opened:
            entry = opened.NameToInfo.get(member)
            if entry is None or entry.flag_bits & _ENCRYPTED:
                reason = "no such member" if entry is None else "an encrypted member"
                raise StagingError(url, target, f"the archive has {reason}")
            with opened.open(entry) as content, arriving(url, target, _UNREADABLE) as arrived:
                shutil.copyfileobj(content, arrived, PIECE_BYTES)
    except _UNREADABLE as failure:
        raise StagingError(url, target, f"{type(failure).__name__}: {failure}") from failure


def _append(archive: str, member: str, source: str) -> None:
    with zipfile.ZipFile(archive, "a", zipfile.ZIP_DEFLATED, strict_timestamps=False) as opened:
        _keep_end(archive, opened.start_dir)
        replaced = opened.NameToInfo.pop(member, None)
        if replaced is not None:
            opened.filelist.remove(replaced)
        opened.write(source, member)


def _keep_end(archive: str, list_offset: int) -> None:
    """Copies the end of the archive, from an offset on, into the file next to it."""
    with open(archive, "rb") as opened, arriving(archive, _undo_path(archive)) as kept:
        opened.seek(list_offset)
        kept.write(_UNDO_HEADER.pack(_UNDO_MAGIC, list_offset))
        shutil.copyfileobj(opened, kept, PIECE_BYTES)


def _repair(archive: str) -> None:
    """Restores an archive that a killed process left without its list.

    A readable archive stays unchanged: the process was killed before or after the change, or another program has
    repaired the archive.
    """
    if not os.path.exists(_undo_path(archive)):
        return
    try:
        zipfile.ZipFile(archive).close()
    except _UNREADABLE:
        _undo(archive)
    else:
        os.unlink(_undo_path(archive))


def _undo(archive: str) -> None:
    """Puts the kept end back to its offset, if there is one."""
    with suppress(FileNotFoundError), open(_undo_path(archive), "rb") as kept:
        header = kept.read(_UNDO_HEADER.size).ljust(_UNDO_HEADER.size)
        magic, list_offset = _UNDO_HEADER.unpack(header)
        with open(archive, "r+b") as opened:
            if magic == _UNDO_MAGIC and list_offset <= opened.seek(0, os.SEEK_END):
                opened.truncate(list_offset)
                opened.seek(list_offset)
                shutil.copyfileobj(kept, opened, PIECE_BYTES)
        if os.path.getsize(archive) == 0:
            os.unlink(archive)
    with suppress(FileNotFoundError):
        os.unlink(_undo_path(archive))


def _undo_path(archive: str) -> str:
    return f"{archive}.undo"


@contextmanager
def _locked(archive: str, kind: int) -> Iterator[None]:
    """Holds the archive's lock: ``LOCK_EX`` to change it, ``LOCK_SH`` to read it.

    If no lock file can be made next to an archive, the archive is read without a lock: then no process of this user can
    add to it.
    """
    lock = None
    try:
        lock = _open_locked(f"{archive}.lock", kind)
    except OSError as failure:
        if kind == fcntl.LOCK_EX or failure.errno not in _NO_PLACE_FOR_A_LOCK:
            raise ZipFileError(archive, f"cannot be locked: {failure}") from failure
    try:
        yield
    finally:
        if lock is not None:
            os.close(lock)


def _open_locked(path: str, kind: int) -> int:
    """Opens a lock file and waits for its lock. Closing it releases the lock. The file stays."""
    access = os.O_RDONLY if kind == fcntl.LOCK_SH else os.O_RDWR
    while True:
        lock = os.open(path, access | os.O_CREAT | os.O_CLOEXEC, 0o666)
        try:
            fcntl.flock(lock, kind)
            # If the file was removed during the wait, other processes lock a new file of that name.
            if os.fstat(lock).st_nlink > 0:
                return lock
        except BaseException:
            os.close(lock)
            raise
        os.close(lock)
