"""Files from FTP servers, as ``anonymous`` unless the URL has a name and a password."""

from __future__ import annotations

import os

from gristmill.parsl._kernel.staging.arrival import PIECE_BYTES, SILENCE_LIMIT_S, arriving
from gristmill.parsl._kernel.staging.fetching import InTaskFetching, SeparateTaskFetching

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any, BinaryIO

    from gristmill.parsl._kernel.files import File


def fetch(file: File) -> None:
    """Downloads a file to its local path. Raises ``StagingError``."""
    import ftplib

    # A ValueError means a port that is no number, or a path with a line break.
    failures = (*ftplib.all_errors, ValueError)
    with arriving(file.url, file.filepath, failures) as arrived:
        _retrieve(file, arrived)


def _retrieve(file: File, arrived: BinaryIO) -> None:
    import ftplib
    from urllib.parse import unquote, urlsplit

    server = urlsplit(f"//{file.netloc}")
    with ftplib.FTP(timeout=SILENCE_LIMIT_S) as connection:
        connection.connect(server.hostname or "", server.port or ftplib.FTP_PORT)
        connection.login(unquote(server.username or ""), unquote(server.password or ""))
        directory = os.path.dirname(file.path)
        if directory:
            connection.cwd(directory)
        connection.retrbinary(f"RETR {file.filename}", arrived.write, PIECE_BYTES)


def _ftp_stage_in(
    parent_fut: Any = None, outputs: Sequence[File] = (), _parsl_staging_inhibit: bool = True
) -> None:
    """Downloads a file in a task."""
    fetch(outputs[0])


class FTPSeparateTaskStaging(SeparateTaskFetching):
    """A provider that downloads ``ftp`` files in separate tasks. Workers have to share the working directory."""

    schemes = frozenset({"ftp"})
    fetching_task = staticmethod(_ftp_stage_in)


class FTPInTaskStaging(InTaskFetching):
    """A provider that downloads ``ftp`` files within the task that reads them, on its worker."""

    schemes = frozenset({"ftp"})
    fetch = staticmethod(fetch)
