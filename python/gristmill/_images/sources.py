"""Where the bytes come from of what is opened on a node."""

from __future__ import annotations

import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from gristmill import _native


class Source:
    """A file that somebody named, or one that was brought to this node and is in memory."""

    def __init__(
        self, path: str, brought: _native.BroughtFile | None = None, is_run: bool = True
    ) -> None:
        #: Where it is, or was where it was brought from: for messages.
        self.path = path
        self.brought = brought
        #: Programs in it are to run, which need its interpreter; else modules are imported by another one.
        self.is_run = is_run
        #: Bytes of disk that were asked for last, to open it.
        self.needed = 0

    def size(self) -> int:
        """How many bytes it has."""
        return os.path.getsize(self.path) if self.brought is None else self.brought.size

    def write_to(self, target: str, digest: str) -> None:
        """Writes a copy of which every byte is right. What was brought was hashed on its way."""
        from gristmill import _native

        if self.brought is not None:
            self.brought.write_to(target)
        else:
            _native.image_copy(self.path, digest, target)
