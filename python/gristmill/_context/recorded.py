"""File lists that installers write: ``RECORD`` of wheels, ``egg-info`` of older distributions, ``conda-meta``.

Sizes and counts exclude compiled bytecode, which Python creates again whenever it is missing.
"""

from __future__ import annotations

import contextlib
import csv
import json
import os
import re

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from typing import Any

_FIRST_PART = re.compile(rb'^"?([^/,"\r\n]+)', re.MULTILINE)


class Recorded:
    """Files of one distribution, relative to one folder. The text is parsed only on demand."""

    def __init__(self, root: str, text: bytes) -> None:
        self.root = root
        #: Text of the record. A line break precedes every line, and every line begins with a file.
        self._text = b"\n" + text.replace(b"\r\n", b"\n")

    def first_parts(self) -> set[bytes]:
        """Returns the names of the files and folders directly in the root. The result may contain other names too."""
        return set(_FIRST_PART.findall(self._text))

    def has(self, path: str) -> bool:
        """Returns whether the record lists the file, given relative to the root with ``/``."""
        line = b"\n" + os.fsencode(path)
        return line + b"," in self._text or line + b"\n" in self._text

    def files(self) -> Iterator[tuple[str, int]]:
        """Yields the absolute path and the size in bytes of each file that exists or has a recorded size."""
        lines = os.fsdecode(self._text).split("\n")
        for row in csv.reader(line for line in lines if line):
            if is_bytecode(row[0]):
                continue
            path = os.path.normpath(os.path.join(self.root, row[0]))
            size = int(row[2]) if len(row) > 2 and row[2].isdigit() else size_of(path)
            if size is not None:
                yield path, size

    def lines(self, suffix: str) -> list[str]:
        """Returns the files, relative to the root, whose names end with ``suffix``."""
        end = os.fsencode(suffix)
        if end + b"," not in self._text and end + b"\n" not in self._text:
            return []
        found = (line.partition(b",")[0] for line in self._text.split(b"\n") if end in line)
        return [os.fsdecode(name) for name in found if name.endswith(end)]


def of_metadata(folder: str) -> Recorded | None:
    """Returns the file list of a ``dist-info`` or ``egg-info``; ``None`` if it has none."""
    root = os.path.dirname(folder)
    text = read(os.path.join(folder, "RECORD"))
    if text is not None:
        return Recorded(root, text)
    text = read(os.path.join(folder, "installed-files.txt"))
    if text is None:
        return None
    names = (os.path.normpath(os.path.join(folder, name)) for name in os.fsdecode(text).split("\n"))
    lines = "\n".join(os.path.relpath(name, root) for name in names if name != folder)
    return Recorded(root, os.fsencode(lines + "\n"))


class CondaPackages:
    """Packages that conda, mamba or pixi installed into a prefix, from the records in ``conda-meta``."""

    def __init__(self, prefix: str) -> None:
        self.prefix = os.path.realpath(prefix)
        self._texts: dict[str, bytes] | None = None
        self._records: dict[str, dict[str, Any]] = {}

    def owner(self, file: str) -> dict[str, Any] | None:
        """Returns the record of the package that a file belongs to, or ``None``."""
        folder, name = os.path.split(file)
        inside = os.path.relpath(os.path.join(os.path.realpath(folder), name), self.prefix)
        needle = json.dumps(inside).encode()
        for name, text in self._all().items():
            if needle in text and inside in self._record(name).get("files", ()):
                return self._record(name)
        return None

    def get(self, name: str) -> dict[str, Any] | None:
        """Returns the record of the package of that name, or ``None``."""
        return self._record(name) if name in self._all() else None

    def _record(self, name: str) -> dict[str, Any]:
        if name not in self._records:
            self._records[name] = parse(self._all()[name])
        return self._records[name]

    def _all(self) -> dict[str, bytes]:
        """Returns the text of each record, by package name."""
        if self._texts is None:
            self._texts = {}
            folder = os.path.join(self.prefix, "conda-meta")
            with contextlib.suppress(OSError):
                for entry in sorted(os.listdir(folder)):
                    name = entry.rsplit("-", 2)[0]
                    if entry.endswith(".json") and name != entry:
                        self._texts[name] = read(os.path.join(folder, entry)) or b""
        return self._texts


def conda_files(record: dict[str, Any], prefix: str) -> Iterator[tuple[str, int]]:
    """Yields the absolute path and the size in bytes of each file of a conda package."""
    sizes = {
        path.get("_path"): path.get("size_in_bytes")
        for path in record.get("paths_data", {}).get("paths", ())
    }
    for name in record.get("files", ()):
        if not is_bytecode(name):
            path = os.path.join(prefix, name)
            size = sizes.get(name)
            size = size if isinstance(size, int) else size_of(path)
            if size is not None:
                yield path, size


def files_below(tops: Iterable[str]) -> Iterator[tuple[str, int]]:
    """Yields the path and the size in bytes of each file below some folders, and of each top that is a file itself."""
    for top in tops:
        if os.path.isfile(top):
            yield top, size_of(top) or 0
        for folder, folders, names in os.walk(top):
            folders[:] = sorted(name for name in folders if name != "__pycache__")
            for name in sorted(names):
                path = os.path.join(folder, name)
                size = None if is_bytecode(path) else size_of(path)
                if size is not None:
                    yield path, size


def is_bytecode(path: str) -> bool:
    """Returns whether a file is bytecode that the interpreter can create again."""
    return path.endswith(".pyc") and "__pycache__" in path


def size_of(path: str) -> int | None:
    """Returns the size of a file in bytes; ``None`` if it does not exist."""
    try:
        return os.lstat(path).st_size
    except OSError:
        return None


def read(path: str) -> bytes | None:
    """Returns the bytes of a file; ``None`` if it cannot be read."""
    try:
        with open(path, "rb") as file:
            return file.read()
    except OSError:
        return None


def parse(text: bytes | None) -> dict[str, Any]:
    """Returns the object in a JSON file of another program; an empty dict if the text is no JSON object."""
    try:
        found = json.loads(text or b"{}")
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}
