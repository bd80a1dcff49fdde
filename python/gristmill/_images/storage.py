"""Folders for images: a node's storage for open ones, and the cache of built ones."""

from __future__ import annotations

import errno
import os
import stat

from gristmill import _filesystem
from gristmill._errors import ImageError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

#: Environment variable with a folder on the node's own disk. Other folders are tried only if it is not set.
LOCAL_VARIABLE = "GRISTMILL_LOCAL_DIR"
_OTHERS = ("SLURM_TMPDIR", "TMPDIR")


def is_shared(path: str) -> bool:
    """Returns whether a path is on a file system that other nodes share or may share."""
    return _filesystem.of(path).may_be_shared


def is_worth_an_image(prefix: str) -> bool:
    """Returns whether an environment is faster from an image than in place: it is not if it is on a local disk."""
    return is_shared(prefix)


def candidates() -> Iterator[tuple[str, str]]:
    """Yields the folders that may be on a node's own disk, and the setting that names each."""
    said = os.environ.get(LOCAL_VARIABLE)
    if said:
        yield said, f"${LOCAL_VARIABLE}"
        return
    for name in _OTHERS:
        if os.environ.get(name):
            yield os.environ[name], f"${name}"
    yield "/tmp", "the last choice"


def fault_of(path: str) -> str | None:
    """Returns the reason why a folder cannot hold open images; ``None`` if it can."""
    if not os.path.isdir(path):
        return "it is not a folder"
    if not os.access(path, os.W_OK | os.X_OK):
        return "it cannot be written to"
    if is_shared(path):
        name = _filesystem.of(path).name
        return f"it is on a file system of type {name}, which is shared with other nodes"
    return None


def local_folder(part: str = "images") -> str:
    """Returns the folder for open images, or for files, on this node's own disk. Only this user can access it."""
    faults = []
    for path, who in candidates():
        fault = fault_of(path)
        if fault is None:
            return own_folder(path, f"gristmill-{os.getuid()}", part)
        faults.append(f"{path} ({who}): {fault}")
    raise ImageError(
        f"there is no folder for images on this node: {'; '.join(faults)}: set {LOCAL_VARIABLE}"
    )


def cache_folder() -> str:
    """Returns the cache folder for built images."""
    base = os.environ.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache")
    return own_folder(base, "gristmill", "images")


def own_folder(base: str, *parts: str) -> str:
    """Creates a folder whose last parts belong to this user alone. Raises ``ImageError`` if others can write to it."""
    path = os.path.abspath(base)
    try:
        os.makedirs(path, mode=0o700, exist_ok=True)
        for part in parts:
            path = os.path.join(path, part)
            try:
                os.mkdir(path, 0o700)
            except FileExistsError:
                status = os.lstat(path)
                is_own = stat.S_ISDIR(status.st_mode) and status.st_uid == os.getuid()
                if not is_own or status.st_mode & 0o022:
                    raise ImageError(
                        f"{path} is not used for images: a user other than {os.getuid()} owns it or may write to it"
                    ) from None
    except OSError as error:
        raise ImageError(f"{path} cannot hold images: {error}") from error
    return path


def free_size(path: str) -> int:
    """Returns the number of bytes that this user may still write there."""
    said = os.statvfs(path)
    return said.f_bavail * said.f_frsize


def is_full(error: OSError) -> bool:
    """Returns whether an error says that no space is left."""
    return error.errno in (errno.ENOSPC, errno.EDQUOT)


def no_space(step: str, folder: str, needed: int) -> ImageError:
    """Returns the error for a full disk."""
    return ImageError(
        f"no space left to {step} in {folder}: up to {needed / 1e6:.1f} MB are needed and "
        f"{free_size(folder) / 1e6:.1f} MB are free"
    )
