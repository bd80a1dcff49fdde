"""What goes wrong while files are staged."""

from __future__ import annotations

import sys

from gristmill.parsl.errors import ParslError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

    from gristmill.parsl.files import File
    from gristmill.parsl.staging import Staging


class StagingError(ParslError, RuntimeError):
    """A file could not be brought from its source to its target; what was at the target before is still there.

    ``source`` and ``target`` are a URL, or a path, each; passwords are left out.
    """

    def __init__(self, source: str, target: str, reason: str) -> None:
        super().__init__(source, target, reason)
        self.source = source
        self.target = target
        self.reason = reason

    def __str__(self) -> str:
        return f"cannot bring {self.source} to {self.target}: {self.reason}"


class NoStagingProvider(ParslError, ValueError):
    """None of an executor's staging providers takes a file.

    :param executor: the executor's label.
    :param providers: those that were asked.
    :param verb: ``"stage"`` or ``"stage out"``.
    """

    def __init__(self, executor: str, file: File, providers: Iterable[Staging], verb: str) -> None:
        asked = ", ".join(type(provider).__name__ for provider in providers) or "no provider at all"
        super().__init__(
            f"Executor {executor} cannot {verb} file {file!r}: none of its storage_access takes it ({asked})"
        )


class ZipFileError(ParslError, RuntimeError):
    """An archive, or the part of a ``zip`` URL that is to name one, cannot be used."""

    def __init__(self, archive: str, reason: str) -> None:
        super().__init__(archive, reason)
        self.archive = archive
        self.reason = reason

    def __str__(self) -> str:
        return f"{self.archive}: {self.reason}"


class ZipAuthorityError(ParslError):
    """A ``zip`` URL names a host: archives are paths, ``zip:/path/to.zip/inside``."""

    def __init__(self, file: File) -> None:
        super().__init__(file)
        self.file = file

    def __str__(self) -> str:
        return (
            f"ZipFileStaging knows no hosts, and {self.file.url} names one ({self.file.netloc}): "
            "write zip:/path/to.zip/inside"
        )


def _adopt_counterpart() -> None:
    """Makes ``ZipAuthorityError`` one of Parsl's too, in processes where the other errors are."""
    theirs = getattr(sys.modules.get("parsl.data_provider.zip"), "ZipAuthorityError", None)
    if isinstance(theirs, type) and theirs not in ZipAuthorityError.__mro__:
        ZipAuthorityError.__bases__ = (*ZipAuthorityError.__bases__, theirs)


_adopt_counterpart()
