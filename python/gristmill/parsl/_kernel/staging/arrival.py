"""The destination of a staged file, and its atomic creation there."""

from __future__ import annotations

import os
from contextlib import contextmanager, suppress

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import BinaryIO

    from gristmill.parsl._kernel.data_manager import DataManager
    from gristmill.parsl._kernel.files import File

#: Seconds without data from a server. Long enough for a server that first prepares the file, but limited.
SILENCE_LIMIT_S = 300.0

#: Bytes that are copied at a time.
PIECE_BYTES = 1 << 20


def place_in_working_directory(dm: DataManager, executor: str, file: File) -> None:
    """Sets a file's path for the tasks of an executor: its own name in the executor's working directory.

    If the executor has no working directory, the path is relative to the directory that the task runs in. Of two files
    with the same name, from different URLs, the one that arrives last replaces the other.

    Raises ``StagingError`` for a URL that ends with no name.
    """
    directory = working_directory(dm, executor)
    if not file.filename:
        from gristmill.parsl._kernel.staging.errors import StagingError

        raise StagingError(
            without_password(file.url), directory or ".", "the URL ends with no name"
        )
    file.local_path = os.path.join(directory, file.filename)


def working_directory(dm: DataManager, executor: str) -> str:
    """Returns the working directory of an executor, or an empty string."""
    directory = getattr(dm.dfk.executors[executor], "working_dir", None)
    return os.fspath(directory) if directory else ""


@contextmanager
def arriving(
    source: str, target: str, failures: tuple[type[Exception], ...] = (OSError,)
) -> Iterator[BinaryIO]:
    """Opens a file that becomes ``target`` when the block ends, and is removed when the block raises.

    Makes the missing directories. A process that has the old file open keeps reading the old one.

    :param failures: exceptions of the block that become ``StagingError``, because the file did not arrive. The cause is
        left out: it may hold a connection, and has to travel between processes.
    """
    # In the same directory, so that one system call can rename it. Not from tempfile, whose files are private.
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
        from gristmill.parsl._kernel.staging.errors import StagingError

        reason = f"{type(failure).__name__}: {failure}"
        raise StagingError(without_password(source), target, reason) from None


def make_directory_of(path: str) -> None:
    """Makes the missing directories above a path."""
    directory = os.path.dirname(path)
    if directory:
        os.makedirs(directory, exist_ok=True)


def without_password(url: str) -> str:
    """Returns a URL that is safe to show, without its password."""
    scheme, separator, rest = url.partition("://")
    host, slash, path = rest.partition("/")
    credentials, at, host = host.rpartition("@")
    user, colon, _ = credentials.partition(":")
    return f"{scheme}{separator}{user}{':***' if colon else ''}{at}{host}{slash}{path}"
