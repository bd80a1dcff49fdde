"""Files of a context: named by whoever declares it, hashed once, and found by name where its functions run."""

from __future__ import annotations

import os

from gristmill._errors import ContextError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Any

    #: Where a file was, its digest, and what told that it is the same there.
    Told = tuple[str, str, tuple[int, ...] | None]

#: Files by name of the context that this process has, or sets up.
_here: dict[str, Told] | None = None


def declare(files: Mapping[str, Any] | Sequence[Any]) -> dict[str, str]:
    """Absolute paths by name, of what a caller has listed: paths, whose names are their last parts, or names and paths.

    Raises ``TypeError`` for one text, ``ValueError`` for two files of one name and for what is no file.
    """
    if isinstance(files, (str, bytes, os.PathLike)):
        raise TypeError("files is a list of paths, or a mapping of names to paths, not one path")
    if hasattr(files, "items"):
        pairs = list(files.items())
    else:
        pairs = [(os.path.basename(os.path.abspath(os.fspath(path))), path) for path in files]
    found: dict[str, str] = {}
    for name, path in pairs:
        path = os.path.abspath(os.fspath(path))
        if name in found:
            raise ValueError(
                f"{found[name]} and {path} have one name, {name!r}: files={{...}} gives others"
            )
        if os.path.isdir(path):
            raise ValueError(f"{path} is a folder: name the files in it that are needed")
        if not os.path.isfile(path):
            raise ValueError(f"the file {path} is not there")
        found[name] = path
    return found


def describe(files: dict[str, str], context: str) -> dict[str, Told]:
    """What workers are told of the files of a context: each with its digest. Reads all of them.

    Raises ``ContextError`` if one cannot be read.
    """
    from gristmill import _native

    told: dict[str, Told] = {}
    for name, path in files.items():
        try:
            # Before it is read: what is written meanwhile is found out then.
            signature = _signature(path)
            told[name] = (path, _native.image_digest(path), signature)
        except OSError as error:
            text = f"the file {path} of context {context!r} cannot be read: {error.strerror}"
            raise ContextError(text) from error
    return told


def enter(files: dict[str, Told]) -> None:
    """This process has, or sets up, a context with these files; raises ``ContextError`` if one was changed."""
    global _here
    for told in files.values():
        _check(told)
    _here = files


def leave() -> None:
    """This process does not have that context any more."""
    global _here
    _here = None


def context_file(name: str) -> str:
    """The path, in this process, of a file of the context that it has or sets up: see ``Context``.

    Raises ``ContextError`` where there is no such file, or no context.
    """
    if _here is None:
        raise ContextError(
            f"there is no file {name!r} here: this process has no context with files"
        )
    return path_of(_here, name)


def path_of(files: dict[str, Told], name: str) -> str:
    """The path of one of these files; raises ``ContextError`` if it is none of them."""
    try:
        path, _, _ = files[name]
    except KeyError:
        known = ", ".join(map(repr, files)) or "none"
        raise ContextError(f"the context has no file {name!r}; it has {known}") from None
    return path


def _signature(path: str) -> tuple[int, ...]:
    status = os.stat(path)
    return status.st_size, status.st_mtime_ns


def _check(told: Told) -> None:
    path, _, signature = told
    # What a node was brought has none: its bytes were hashed, and nobody writes to it.
    if signature is None:
        return
    try:
        now = _signature(path)
    except OSError as error:
        raise ContextError(f"the file {path} cannot be used: {error}") from error
    if now != tuple(signature):
        raise ContextError(
            f"the file {path} was changed after the context was used first: release it, or make another"
        )
