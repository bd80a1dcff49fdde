"""What goes into an image, as the native part takes it."""

from __future__ import annotations

import dataclasses
import os

#: What an image says of itself, at its root.
MANIFEST = "gristmill-image.json"


@dataclasses.dataclass
class Contents:
    """The entries of an image. Their order does not matter; each name is there once."""

    folders: list[str] = dataclasses.field(default_factory=list)
    #: Name, path, where the bytes begin there if not all are meant, how many, whether it can be run.
    files: list[tuple[str, str, int | None, int, bool]] = dataclasses.field(default_factory=list)
    #: Name, bytes, whether it can be run.
    made: list[tuple[str, bytes, bool]] = dataclasses.field(default_factory=list)
    #: Name and target.
    links: list[tuple[str, str]] = dataclasses.field(default_factory=list)

    def size(self) -> int:
        """Bytes of the files."""
        return sum(file[3] for file in self.files) + sum(len(made[1]) for made in self.made)

    def count(self) -> int:
        """How many files and links."""
        return len(self.files) + len(self.made) + len(self.links)

    def add_parents(self) -> None:
        """Adds the folders that other entries are in and nobody has named."""
        there = set(self.folders)
        names = [*self.folders, *(entry[0] for entry in self.files)]
        names += [*(entry[0] for entry in self.made), *(entry[0] for entry in self.links)]
        for name in names:
            parent = os.path.dirname(name)
            while parent and parent not in there:
                there.add(parent)
                parent = os.path.dirname(parent)
        self.folders = sorted(there)
