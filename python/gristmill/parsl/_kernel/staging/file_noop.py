"""Files on a file system that every worker sees, which need no staging."""

from __future__ import annotations

from gristmill.parsl._kernel.representation import RepresentationMixin
from gristmill.parsl._kernel.staging import Staging

TYPE_CHECKING = False
if TYPE_CHECKING:
    from gristmill.parsl._kernel.files import File


class NoOpFileStaging(Staging, RepresentationMixin):
    """A provider that accepts paths and ``file`` URLs, and leaves the files where they are."""

    def can_stage_in(self, file: File) -> bool:
        """Returns whether the file is a path or a ``file`` URL."""
        return file.scheme == "file"

    def can_stage_out(self, file: File) -> bool:
        """Returns whether the file is a path or a ``file`` URL."""
        return file.scheme == "file"

    def __repr__(self) -> str:
        return "NoOpFileStaging()"
