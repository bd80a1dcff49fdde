"""Files on a file system that every worker sees: nothing is to be done."""

from __future__ import annotations

from gristmill.parsl.staging import Staging

TYPE_CHECKING = False
if TYPE_CHECKING:
    from gristmill.parsl.files import File


class NoOpFileStaging(Staging):
    """Accepts paths and ``file`` URLs, and leaves the files where they are."""

    def can_stage_in(self, file: File) -> bool:
        """Whether the file is a path or a ``file`` URL."""
        return file.scheme == "file"

    def can_stage_out(self, file: File) -> bool:
        """Whether the file is a path or a ``file`` URL."""
        return file.scheme == "file"

    def __repr__(self) -> str:
        return "NoOpFileStaging()"
