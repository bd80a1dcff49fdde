"""Content of an image, in the form that the native part reads."""

from __future__ import annotations

import dataclasses
import os

#: Name of the file at the image's root that describes the image.
MANIFEST = "gristmill-image.json"


@dataclasses.dataclass
class Contents:
    """Entries of an image, in any order. Each name occurs once."""

    folders: list[str] = dataclasses.field(default_factory=list)
    #: Name, path, offset of the bytes in that file (``None`` for the whole file), size in bytes, and whether it is
    #: executable.
    files: list[tuple[str, str, int | None, int, bool]] = dataclasses.field(default_factory=list)
    #: Name, bytes, and whether it is executable.
    made: list[tuple[str, bytes, bool]] = dataclasses.field(default_factory=list)
    #: Name and target.
    links: list[tuple[str, str]] = dataclasses.field(default_factory=list)

    def size(self) -> int:
        """Returns the total size of the files in bytes."""
        return sum(file[3] for file in self.files) + sum(len(made[1]) for made in self.made)

    def count(self) -> int:
        """Returns the number of files and links."""
        return len(self.files) + len(self.made) + len(self.links)

    def add_parents(self) -> None:
        """Adds the missing parent folders of all entries."""
        there = set(self.folders)
        names = [*self.folders, *(entry[0] for entry in self.files)]
        names += [*(entry[0] for entry in self.made), *(entry[0] for entry in self.links)]
        for name in names:
            parent = os.path.dirname(name)
            while parent and parent not in there:
                there.add(parent)
                parent = os.path.dirname(parent)
        self.folders = sorted(there)
