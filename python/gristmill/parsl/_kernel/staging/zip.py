"""Files inside zip archives: ``zip:/path/to.zip/inside/here.txt``."""

from __future__ import annotations

import os

from gristmill.parsl._kernel.staging import Staging
from gristmill.parsl._kernel.staging.arrival import make_directory_of, working_directory
from gristmill.parsl._kernel.staging.fetching import staged_in_by

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from concurrent.futures import Future
    from typing import Any

    from gristmill.parsl._kernel.data_manager import DataManager
    from gristmill.parsl._kernel.files import File
    from gristmill.parsl._kernel.futures import DataFuture
    from gristmill.parsl._kernel.staging.errors import ZipAuthorityError as ZipAuthorityError
    from gristmill.parsl._kernel.staging.errors import ZipFileError as ZipFileError

#: The executor that reads and writes archives: threads of the program itself, which can open the archive's path.
_INTERNAL = "_parsl_internal"


class ZipFileStaging(Staging):
    """A provider that extracts files from zip archives for tasks, and adds the files that tasks write to archives.

    The files themselves are in the executor's working directory, under the name that they have in the archive. The
    program and the workers have to share that directory. A file is removed from it once it is in the archive.

    Several tasks and programs may write an archive at once. Adding an existing member replaces it.
    """

    def can_stage_in(self, file: File) -> bool:
        """Returns whether the file is a ``zip`` URL. Raises ``ZipAuthorityError`` if that names a host."""
        return self.is_zip_url(file)

    def can_stage_out(self, file: File) -> bool:
        """Returns whether the file is a ``zip`` URL. Raises ``ZipAuthorityError`` if that names a host."""
        return self.is_zip_url(file)

    def is_zip_url(self, file: File) -> bool:
        """Returns whether the file is a ``zip`` URL. Raises ``ZipAuthorityError`` if that names a host."""
        if file.scheme != "zip":
            return False
        if file.netloc:
            from gristmill.parsl._kernel.staging.errors import ZipAuthorityError

            raise ZipAuthorityError(file)
        return True

    def stage_in(
        self, dm: DataManager, executor: str, file: File, parent_fut: Future[Any] | None
    ) -> DataFuture:
        """Submits the task that extracts the file. Raises ``ZipFileError`` for a URL without an archive."""
        archive, member = zip_path_split(file.path)
        file.local_path = os.path.join(working_directory(dm, executor), member)
        return staged_in_by(_zip_stage_in, dm, _INTERNAL, file, parent_fut, archive, member)

    def stage_out(
        self, dm: DataManager, executor: str, file: File, app_fu: Future[Any]
    ) -> Future[Any]:
        """Submits the task that adds the file to its archive once the app has ended.

        Raises ``ZipFileError`` for a URL without an archive, and for an executor without a working directory.
        """
        archive, member = zip_path_split(file.path)
        directory = working_directory(dm, executor)
        if not directory:
            from gristmill.parsl._kernel.staging.errors import ZipFileError

            reason = (
                f"adding to an archive requires a working_dir, and executor {executor} has none"
            )
            raise ZipFileError(archive, reason)
        file.local_path = os.path.join(directory, member)
        make_directory_of(file.local_path)
        from gristmill.parsl._kernel.apps import python_app

        app = python_app(executors=[_INTERNAL], data_flow_kernel=dm.dfk)(_zip_stage_out)
        future: Future[Any] = app(
            archive, member, inputs=[file], _parsl_staging_inhibit=True, parent_fut=app_fu
        )
        return future

    def __repr__(self) -> str:
        return "ZipFileStaging()"


def zip_path_split(path: str) -> tuple[str, str]:
    """Splits the path of a ``zip`` URL after the first ``.zip`` into the archive's path and the member's name.

    Raises ``ZipFileError`` if there is no ``.zip/``, or if the name would lead out of the working directory.
    """
    before, mark, member = path.partition(".zip/")
    outside = os.path.isabs(member) or ".." in member.split("/")
    if not mark or not member or outside:
        from gristmill.parsl._kernel.staging.errors import ZipFileError

        raise ZipFileError(path, "a file in an archive has the form /path/to.zip/inside")
    return f"{before}.zip", member


def _zip_stage_in(
    archive: str,
    member: str,
    parent_fut: Any = None,
    outputs: Sequence[File] = (),
    _parsl_staging_inhibit: bool = True,
) -> None:
    """Extracts a file in a task."""
    from gristmill.parsl._kernel.staging.archive import extract_member

    extract_member(archive, member, outputs[0].filepath)


def _zip_stage_out(
    archive: str,
    member: str,
    parent_fut: Any = None,
    inputs: Sequence[File] = (),
    _parsl_staging_inhibit: bool = True,
) -> None:
    """Adds a file to an archive in a task, and removes it from where the app wrote it."""
    from gristmill.parsl._kernel.staging.archive import add_member

    written = inputs[0].filepath
    add_member(archive, member, written)
    os.unlink(written)
