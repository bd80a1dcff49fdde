"""Where a staged file is put, and how it gets there: whole or not at all."""

from __future__ import annotations

import os
from contextlib import contextmanager, suppress

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import BinaryIO

    from gristmill.parsl.data_manager import DataManager
    from gristmill.parsl.files import File

#: How long a server may say nothing. Long enough for one that prepares what it was asked for, and not for ever.
SILENCE_LIMIT_S = 300.0

#: What is copied at a time.
PIECE_BYTES = 1 << 20


def place_in_working_directory(dm: DataManager, executor: str, file: File) -> None:
    """Gives a file its place for the tasks of an executor: its own name in the executor's working directory.

    Without a working directory it is the directory that a task runs in. Two files of one name, from different URLs,
    have one place: the last to arrive is there.

    Raises ``StagingError`` for a URL that ends with no name.
    """
    directory = working_directory(dm, executor)
    if not file.filename:
        from gristmill.parsl.staging.errors import StagingError

        raise StagingError(
            without_password(file.url), directory or ".", "the URL ends with no name"
        )
    file.local_path = os.path.join(directory, file.filename)


def working_directory(dm: DataManager, executor: str) -> str:
    """The working directory of an executor, or an empty string."""
    directory = getattr(dm.dfk.executors[executor], "working_dir", None)
    return os.fspath(directory) if directory else ""


@contextmanager
def arriving(
    source: str, target: str, failures: tuple[type[Exception], ...] = (OSError,)
) -> Iterator[BinaryIO]:
    """Opens a file that becomes ``target`` when the block ends, and of which nothing is left when the block raises.

    Makes the directories that are missing. Who has the old file open keeps reading the old one.

    :param failures: what the block may raise and means that the file did not arrive: those become ``StagingError``.
        The cause is left out, because it may hold a connection and has to travel between processes.
    """
    # In the same directory, so that one system call gives it its name. Not from tempfile, whose files are private.
    unfinished = os.path.join(os.path.dirname(target), f".{os.urandom(8).hex()}.part")
    try:
        make_directory_of(target)
        try:
            with open(unfinished, "xb") as arrived:
                yield arrived
            os.replace(unfinished, target)
        except BaseException:
            with suppress(OSError):
                os.unlink(unfinished)
            raise
    except failures as failure:
        from gristmill.parsl.staging.errors import StagingError

        reason = f"{type(failure).__name__}: {failure}"
        raise StagingError(without_password(source), target, reason) from None


def make_directory_of(path: str) -> None:
    """Makes the directories above a path that are missing."""
    directory = os.path.dirname(path)
    if directory:
        os.makedirs(directory, exist_ok=True)


def without_password(url: str) -> str:
    """A URL as it may be shown."""
    scheme, separator, rest = url.partition("://")
    host, slash, path = rest.partition("/")
    credentials, at, host = host.rpartition("@")
    user, colon, _ = credentials.partition(":")
    return f"{scheme}{separator}{user}{':***' if colon else ''}{at}{host}{slash}{path}"
