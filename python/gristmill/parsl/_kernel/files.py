"""Files that tasks read and write, at any location: ``File``, with Parsl's attributes.

A ``File`` is a URL, or a path, which needs no scheme. Its ``local_path`` is the location of the file for the process
that uses it: a staging provider sets it on a copy, for one task, and never on the object that the program made.
"""

from __future__ import annotations

import os
import re
import sys
from types import NoneType

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, TypeGuard

_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:")

#: Types of most arguments, which are neither files nor futures of files. One set lookup recognizes them.
PLAIN_TYPES = frozenset(
    {int, float, complex, bool, str, bytes, bytearray, NoneType, list, tuple, dict, set, frozenset}
)


class File:
    """A file by its URL, or by its path. Two files with the same URL are different objects and do not compare equal.

    :param url: for example ``"input.txt"``, ``Path("input.txt")``, ``"file:///scratch/input.txt"``,
        ``"https://host/input.txt"``. A path without a scheme is taken literally, so it may contain ``?``, ``#`` and
        ``;``.

    ``url``, ``scheme`` (``"file"`` for a path), ``netloc``, ``path`` and ``filename`` (the last part of the path) never
    change. ``local_path`` is ``None`` until the file is staged.

    Raises ``TypeError`` for anything but a string or a path, ``ValueError`` for a malformed host.
    """

    def __init__(self, url: os.PathLike[str] | str) -> None:
        if not isinstance(url, str | os.PathLike):
            raise TypeError(f"url must be a string or a path, not {type(url).__name__}")
        self.url: str = os.fsdecode(url)
        try:
            self.scheme, self.netloc, self.path = _parts(self.url)
        except ValueError as error:
            raise ValueError(f"url {self.url!r} is malformed: {error}") from None
        self.filename: str = os.path.basename(self.path)
        self.local_path: str | None = None

    def cleancopy(self) -> File:
        """Returns a ``File`` with the same URL that has not been staged anywhere."""
        return File(self.url)

    @property
    def filepath(self) -> str:
        """The location of the file for this process: its local path, or the path of a ``file`` URL.

        Raises ``ValueError`` for a file of another scheme that was not staged here.
        """
        if self.local_path is not None:
            return self.local_path
        if self.scheme == "file":
            return self.path
        raise ValueError(
            f"No local_path set for {self!r}: a {self.scheme} file has a path once staged"
        )

    def __fspath__(self) -> str:
        return self.filepath

    def __str__(self) -> str:
        return self.filepath

    def __repr__(self) -> str:
        names = ["url", "scheme", "netloc", "path", "filename"]
        if self.local_path is not None:
            names.append("local_path")
        values = " ".join(f"{name}={getattr(self, name)}" for name in names)
        return f"<{type(self).__name__} at {id(self):#x} {values}>"


def is_file(value: Any) -> TypeGuard[File]:
    """Returns whether a value is a ``File``: this one, or Parsl's where a program has loaded it.

    It looks at types only: reading an attribute of a future would submit a task.
    """
    kind = type(value)
    if kind is File:
        return True
    return kind not in PLAIN_TYPES and (
        issubclass(kind, File) or is_instance_of_loaded(kind, "parsl.data_provider.files", "File")
    )


def is_instance_of_loaded(kind: type, module_name: str, class_name: str) -> bool:
    """Returns whether a type is, or derives from, a class of a module that may not be loaded."""
    wanted = getattr(sys.modules.get(module_name), class_name, None)
    return isinstance(wanted, type) and issubclass(kind, wanted)


def _parts(url: str) -> tuple[str, str, str]:
    """Returns scheme, host and path."""
    if _SCHEME.match(url) is None:
        return "file", "", url
    from urllib.parse import urlparse

    parsed = urlparse(url)
    return parsed.scheme, parsed.netloc, parsed.path
