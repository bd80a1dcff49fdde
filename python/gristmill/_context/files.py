"""Files of a context: the caller names them, they are hashed once, and functions find them by name."""

from __future__ import annotations

import os

from gristmill import _options
from gristmill._errors import ContextError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Any

    #: Path of a file, its digest, and its size and modification time. The last is ``None`` for a file that a node
    #: received.
    DescribedFile = tuple[str, str, tuple[int, ...] | None]

#: Files of the context that this process has or sets up, by name.
_here: dict[str, DescribedFile] | None = None


def declare(files: Mapping[str, Any] | Sequence[Any]) -> dict[str, str]:
    """Returns absolute paths by name, from a list of paths or a mapping of names to paths.

    In a list the name of a file is the last part of its path. Raises ``TypeError`` for a single path, and
    ``ValueError``
    for two files of one name and for a path that is no file.
    """
    if isinstance(files, (str, bytes, os.PathLike)):
        raise TypeError("files is a list of paths, or a mapping of names to paths, not one path")
    if hasattr(files, "items"):
        pairs = [(_options.text("names of files", name), path) for name, path in files.items()]
    else:
        if not hasattr(type(files), "__iter__"):
            raise TypeError(f"files must be a list of paths, not {_options.shown(files)}")
        paths = [os.path.abspath(_options.path("files", path)) for path in files]
        pairs = [(os.path.basename(path), path) for path in paths]
    found: dict[str, str] = {}
    for name, path in pairs:
        path = os.path.abspath(_options.path("files", path))
        if name in found:
            raise ValueError(
                f"{found[name]} and {path} have the same name, {name!r}: give other names with files={{...}}"
            )
        if os.path.isdir(path):
            raise ValueError(f"{path} is a folder: name the needed files in it")
        if not os.path.isfile(path):
            raise ValueError(f"files: {path} does not exist")
        found[name] = path
    return found


def describe(files: dict[str, str], context: str) -> dict[str, DescribedFile]:
    """Returns the description of a context's files for workers, each with its digest. Reads all files.

    Raises ``ContextError`` if a file cannot be read.
    """
    from gristmill import _native

    described: dict[str, DescribedFile] = {}
    for name, path in files.items():
        try:
            # The signature is taken before the file is read, so that a change during reading is detected later.
            signature = _signature(path)
            described[name] = (path, _native.image_digest(path), signature)
        except OSError as error:
            text = f"the file {path} of context {context!r} cannot be read: {error.strerror}"
            raise ContextError(text) from error
    return described


def enter(files: dict[str, DescribedFile]) -> None:
    """Makes these files those of this process's context. Raises ``ContextError`` if a file has changed."""
    global _here
    for described in files.values():
        _check(described)
    _here = files


def leave() -> None:
    """Removes the files of the context from this process."""
    global _here
    _here = None


def context_file(name: str) -> str:
    """Returns the path, in this process, of a file of the context that it has or sets up: see ``Context``.

    Raises ``ContextError`` if the context has no such file, or if this process has no context.
    """
    if _here is None:
        raise ContextError(
            f"there is no file {name!r} here: this process has no context with files"
        )
    return path_of(_here, name)


def path_of(files: dict[str, DescribedFile], name: str) -> str:
    """Returns the path of one of these files; raises ``ContextError`` for an unknown name."""
    try:
        path, _, _ = files[name]
    except KeyError:
        known = ", ".join(map(repr, files)) or "none"
        raise ContextError(f"the context has no file {name!r}; it has {known}") from None
    return path


def _signature(path: str) -> tuple[int, ...]:
    status = os.stat(path)
    return status.st_size, status.st_mtime_ns


def _check(described: DescribedFile) -> None:
    path, _, signature = described
    # A file that a node received has no signature: its bytes were hashed, and no process writes to it.
    if signature is None:
        return
    try:
        now = _signature(path)
    except OSError as error:
        raise ContextError(f"the file {path} cannot be used: {error}") from error
    if now != tuple(signature):
        raise ContextError(
            f"the file {path} was changed after the first use of the context: release the context, or make another one"
        )
