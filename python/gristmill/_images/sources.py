"""Source of the bytes for an image or file that a node opens."""

from __future__ import annotations

import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from gristmill import _native


class Source:
    """A file that the caller named, or one that was sent to this node and is in memory."""

    def __init__(
        self, path: str, brought: _native.BroughtFile | None = None, is_run: bool = True
    ) -> None:
        #: Path of the file, here or where it was sent from, for messages.
        self.path = path
        self.brought = brought
        #: True if the image's own interpreter will run. False if another interpreter only imports modules from the
        #: image.
        self.is_run = is_run
        #: Bytes of disk space that the last attempt to open it asked for.
        self.needed = 0

    def size(self) -> int:
        """Returns the size in bytes."""
        return os.path.getsize(self.path) if self.brought is None else self.brought.size

    def write_to(self, target: str, digest: str) -> None:
        """Writes a verified copy. Bytes that were sent to this node were hashed on arrival."""
        from gristmill import _native

        if self.brought is not None:
            self.brought.write_to(target)
        else:
            _native.image_copy(self.path, digest, target)
