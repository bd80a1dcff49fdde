"""Errors of staging files."""

from __future__ import annotations

from gristmill.parsl._kernel.errors import ParslError, adopt

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

    from gristmill.parsl._kernel.files import File
    from gristmill.parsl._kernel.staging import Staging


class StagingError(ParslError, RuntimeError):
    """A file that could not be brought from its source to its target. A previous file at the target is still there.

    ``source`` and ``target`` are each a URL or a path, without passwords.
    """

    code = "staging_failed"

    def __init__(self, source: str, target: str, reason: str) -> None:
        super().__init__(source, target, reason)
        self.source = source
        self.target = target
        self.reason = reason

    def __str__(self) -> str:
        return f"cannot bring {self.source} to {self.target}: {self.reason}"


class NoStagingProvider(ParslError, ValueError):
    """A file that no staging provider of an executor accepts.

    :param executor: the executor's label.
    :param providers: the providers that were asked.
    :param verb: ``"stage"`` or ``"stage out"``.
    """

    code = "no_staging_provider"

    def __init__(self, executor: str, file: File, providers: Iterable[Staging], verb: str) -> None:
        asked = ", ".join(type(provider).__name__ for provider in providers) or "no provider is set"
        super().__init__(
            f"Executor {executor} cannot {verb} file {file!r}: no provider in its storage_access accepts it ({asked})"
        )


class ZipFileError(ParslError, RuntimeError):
    """An archive, or the part of a ``zip`` URL that names one, that cannot be used."""

    code = "zip_file_unusable"

    def __init__(self, archive: str, reason: str) -> None:
        super().__init__(archive, reason)
        self.archive = archive
        self.reason = reason

    def __str__(self) -> str:
        return f"{self.archive}: {self.reason}"


class ZipAuthorityError(ParslError):
    """A ``zip`` URL that names a host: archives are paths, ``zip:/path/to.zip/inside``."""

    code = "zip_names_host"

    def __init__(self, file: File) -> None:
        super().__init__(file)
        self.file = file

    def __str__(self) -> str:
        return (
            f"ZipFileStaging has no hosts, and {self.file.url} names one ({self.file.netloc}): "
            "write zip:/path/to.zip/inside"
        )


adopt("parsl.data_provider.zip", (ZipAuthorityError,))
