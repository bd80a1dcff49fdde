"""Content of a folder as it goes into an image: names, sizes and times, without the bytes.

``__pycache__`` stays out, because the image gets bytecode of its own.
"""

from __future__ import annotations

import os
import stat

from gristmill._errors import ImageError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import NamedTuple

    class Found(NamedTuple):
        """One entry: its name in the image, its path, and the values that show whether it changed."""

        name: str
        path: str
        #: File type and permissions, as in ``st_mode``.
        mode: int
        size: int
        modified_ns: int
        #: Target of a link in the image; an empty string for other entries.
        target: str
else:
    from collections import namedtuple

    Found = namedtuple("Found", "name path mode size modified_ns target")


def walk(
    root: str, at: str = "", leaves_out: Callable[[str], bool] | None = None
) -> Iterator[Found]:
    """Yields the entries below a folder, which is ``at`` in the image, without names that ``leaves_out`` accepts."""
    root = os.path.realpath(root)
    pending = [""]
    while pending:
        below = pending.pop()
        try:
            with os.scandir(os.path.join(root, below)) as scan:
                entries = sorted(scan, key=lambda entry: entry.name)
        except OSError as error:
            raise ImageError(f"{root} cannot be packed: {error}") from error
        for entry in entries:
            name = os.path.join(below, entry.name)
            if entry.name == "__pycache__" or (leaves_out is not None and leaves_out(name)):
                continue
            found = _look(entry, name, root, at)
            if stat.S_ISDIR(found.mode):
                pending.append(name)
            yield found


def _look(entry: os.DirEntry[str], name: str, root: str, at: str) -> Found:
    status = entry.stat(follow_symlinks=False)
    kind = stat.S_IFMT(status.st_mode)
    target = ""
    if kind == stat.S_IFLNK:
        target = _target(root, name)
        if not target:
            # The link leads out of the folder, so the image gets a copy of the file.
            status = os.stat(entry.path)
    elif kind not in (stat.S_IFREG, stat.S_IFDIR):
        raise ImageError(
            f"{entry.path} cannot be packed: it is neither a file, a folder nor a link"
        )
    place = os.path.join(at, name)
    if target or kind == stat.S_IFDIR:
        # The time of a folder changes with each bytecode file that is written below it, so it is left out.
        return Found(place, entry.path, status.st_mode, 0, 0, target)
    return Found(place, entry.path, status.st_mode, status.st_size, status.st_mtime_ns, "")


def _target(root: str, name: str) -> str:
    """Returns the target of a link, relative to its folder; an empty string for a file outside of the root.

    Only the link of ``bin`` to the interpreter may lead out of the root.
    """
    path = os.path.join(root, name)
    said = os.readlink(path)
    folder = os.path.dirname(path)
    inside = os.path.normpath(os.path.join(folder, said))
    if inside == root or inside.startswith(root + os.sep):
        # If the path passes through another link, `..` leads elsewhere than the text of the link suggests.
        is_plain = os.path.realpath(os.path.dirname(inside)) == os.path.dirname(inside)
        real = inside if is_plain else os.path.realpath(inside)
        if real == root or real.startswith(root + os.sep):
            return os.path.relpath(real, folder)
    if is_interpreter(name):
        return os.path.normpath(os.path.join(folder, said))
    if os.path.isfile(path):
        return ""
    if not os.path.exists(path):
        raise ImageError(f"{path} cannot be packed: it is a link to {said}, which does not exist")
    raise ImageError(
        f"{path} cannot be packed: it is a link to the folder {said}, which is not in the environment"
    )


def is_interpreter(name: str) -> bool:
    """Returns whether the name is ``bin/python``, ``bin/python3.13t`` or similar."""
    folder, _, file = name.rpartition("/")
    return folder == "bin" and file.startswith("python") and not file[6:].strip("0123456789.t")
