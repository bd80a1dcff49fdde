"""Folders for images: where a node keeps open ones, where built ones are cached, and what disks those are on."""

from __future__ import annotations

import errno
import os
import stat

from gristmill._errors import ImageError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

#: Says where the node's own disk is; others are looked for only if it is not set.
LOCAL_VARIABLE = "GRISTMILL_LOCAL_DIR"
_OTHERS = ("SLURM_TMPDIR", "TMPDIR")
#: Types of file systems that other nodes have too: many small files are slow there.
_SHARED = (
    "9p", "afs", "beegfs", "ceph", "cifs", "fhgfs", "gfs2", "glusterfs", "gpfs", "lustre", "ncpfs", "nfs", "nfs4",
    "ocfs2", "orangefs", "panfs", "pvfs2", "smb2", "smb3", "smbfs", "virtiofs", "wekafs",
)  # fmt: skip
#: Of those that programs serve, these are on the node's own disk.
_LOCAL_FUSE = ("fuse.fuse-overlayfs", "fuseblk")


def type_of(path: str) -> str:
    """The type of the file system that a path is on, as the kernel names it; empty if it does not say."""
    path = os.path.realpath(path)
    best, kind = -1, ""
    try:
        with open("/proc/self/mountinfo", encoding="utf-8", errors="surrogateescape") as file:
            for line in file:
                before, _, after = line.partition(" - ")
                place = _plain(before.split(" ")[4])
                is_above = path == place or path.startswith(place.rstrip("/") + "/")
                # The last of several at one place covers the others.
                if is_above and len(place) >= best:
                    best, kind = len(place), after.split(" ", 1)[0]
    except OSError:
        pass
    return kind


def _plain(place: str) -> str:
    for code, letter in (("\\040", " "), ("\\011", "\t"), ("\\012", "\n"), ("\\134", "\\")):
        place = place.replace(code, letter)
    return place


def is_shared(path: str) -> bool:
    """Whether a path is on a file system that other nodes have too."""
    kind = type_of(path)
    return kind in _SHARED or (kind.startswith("fuse") and kind not in _LOCAL_FUSE)


def is_worth_an_image(prefix: str) -> bool:
    """Whether an environment is faster from an image where it is used: it is not if it is on a local disk."""
    return is_shared(prefix)


def candidates() -> Iterator[tuple[str, str]]:
    """The folders that a node's own disk may be in, and who says so."""
    said = os.environ.get(LOCAL_VARIABLE)
    if said:
        yield said, f"${LOCAL_VARIABLE}"
        return
    for name in _OTHERS:
        if os.environ.get(name):
            yield os.environ[name], f"${name}"
    yield "/tmp", "the last choice"


def fault_of(path: str) -> str | None:
    """Why a folder cannot hold open images; nothing if it can."""
    if not os.path.isdir(path):
        return "it is no folder"
    if not os.access(path, os.W_OK | os.X_OK):
        return "it cannot be written to"
    if is_shared(path):
        return f"it is on a file system of type {type_of(path)}, which is shared with other nodes"
    return None


def local_folder(part: str = "images") -> str:
    """The folder for open images, or for files, on this node's own disk; only this user can read or write it."""
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
    """The folder for images that were built."""
    base = os.environ.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache")
    return own_folder(base, "gristmill", "images")


def own_folder(base: str, *parts: str) -> str:
    """Makes a folder whose last parts are this user's alone, or says who else could write to it."""
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
                        f"{path} is not used for images: others than user {os.getuid()} own it or may write to it"
                    ) from None
    except OSError as error:
        raise ImageError(f"{path} cannot hold images: {error}") from error
    return path


def free_size(path: str) -> int:
    """Bytes that this user may still write there."""
    said = os.statvfs(path)
    return said.f_bavail * said.f_frsize


def is_full(error: OSError) -> bool:
    """Whether it says that there is no space left."""
    return error.errno in (errno.ENOSPC, errno.EDQUOT)


def no_space(step: str, folder: str, needed: int) -> ImageError:
    """What there is to say when a disk is full."""
    return ImageError(
        f"no space left to {step} in {folder}: up to {needed / 1e6:.1f} MB are needed and "
        f"{free_size(folder) / 1e6:.1f} MB are free"
    )
