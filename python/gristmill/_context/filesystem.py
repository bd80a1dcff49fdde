"""Whether a folder lies on a file system that other nodes see, too: only there does an image of an environment win."""

from __future__ import annotations

import dataclasses
import os
import re

#: What the kernel calls file systems, by the number that ``statfs`` gives. Source: statfs(2), and the sources of those
#: that are not in the kernel.
_NAMES = {
    0x6969: "nfs",
    0x0BD00BD0: "lustre",
    0x47504653: "gpfs",
    0x19830326: "beegfs",
    0x00C36400: "ceph",
    0x65735546: "fuse",
    0x517B: "smb",
    0xFF534D42: "cifs",
    0xFE534D42: "smb2",
    0x5346414F: "afs",
    0x6B414653: "afs",
    0x20030528: "orangefs",
    0xAAD7AAEA: "panfs",
    0x7461636F: "ocfs2",
    0x01161970: "gfs2",
    0x01021997: "9p",
    0xEF53: "ext4",
    0x58465342: "xfs",
    0x9123683E: "btrfs",
    0x2FC12FC1: "zfs",
    0x01021994: "tmpfs",
    0x794C7630: "overlay",
    0x73717368: "squashfs",
    0xE0F5E1E2: "erofs",
    0xF2F52010: "f2fs",
}
_SHARED = {
    *("nfs", "lustre", "gpfs", "beegfs", "ceph", "afs", "orangefs", "panfs", "ocfs2", "gfs2"),
    *("smb", "cifs", "smb2", "9p"),
}
_LOCAL = {"ext4", "xfs", "btrfs", "zfs", "tmpfs", "overlay", "squashfs", "erofs", "f2fs"}
#: FUSE is what programs make of it: these show files of elsewhere, and these files of this machine.
_FUSE_SHARED = {
    *("sshfs", "glusterfs", "ceph", "ceph-fuse", "cvmfs", "cvmfs2", "beegfs", "wekafs", "juicefs"),
    *("s3fs", "goofys", "gcsfuse", "rclone", "moosefs", "mfsmount", "lizardfs", "davfs2"),
}
_FUSE_LOCAL = {"squashfuse", "squashfuse_ll", "fuse-overlayfs", "fuseblk", "ntfs-3g", "bindfs"}


@dataclasses.dataclass(frozen=True)
class FileSystem:
    """The file system of a folder."""

    #: Its name; the number of one without a name here.
    name: str
    #: Whether other nodes see the same files; ``None`` if that cannot be told.
    is_shared: bool | None


def of(folder: str) -> FileSystem:
    """The file system of a folder of this machine."""
    try:
        number = _number(folder)
    except OSError:
        return FileSystem("unknown", None)
    name = named(number)
    if name == "fuse":
        name = "fuse." + _fuse_name(os.path.realpath(folder), _mounts())
    return FileSystem(name, is_shared(name))


def named(number: int) -> str:
    """The name of a file system by its number."""
    return _NAMES.get(number & 0xFFFFFFFF, hex(number & 0xFFFFFFFF))


def is_shared(name: str) -> bool | None:
    """Whether other nodes see what is on such a file system; ``None`` if that cannot be told."""
    kind, _, program = name.partition(".")
    shared, local = (_FUSE_SHARED, _FUSE_LOCAL) if kind == "fuse" else (_SHARED, _LOCAL)
    word = program if kind == "fuse" else kind
    return True if word in shared else False if word in local else None


def _number(folder: str) -> int:
    """What ``statfs`` says; the standard library has only ``statvfs``, which does not tell. Raises ``OSError``."""
    import ctypes

    library = ctypes.CDLL(None, use_errno=True)
    # The type is the first word of the structure, which is smaller than this everywhere.
    answer = (ctypes.c_long * 64)()
    if library.statfs(os.fsencode(folder), ctypes.byref(answer)) != 0:
        raise OSError(ctypes.get_errno(), f"statfs {folder}")
    return int(answer[0])


def _mounts() -> str:
    try:
        with open("/proc/self/mountinfo", errors="surrogateescape") as file:
            return file.read()
    except OSError:
        return ""


def _fuse_name(folder: str, mounts: str) -> str:
    """The program behind a mount of FUSE: the last of those that are nearest to the folder."""
    best, name = "", "unknown"
    for line in mounts.split("\n"):
        before, _, after = line.partition(" - ")
        fields, kind = before.split(), after.partition(" ")[0]
        if len(fields) < 5:
            continue
        point = re.sub(r"\\(\d{3})", lambda found: chr(int(found[1], 8)), fields[4])
        is_above = folder == point or folder.startswith(point.rstrip("/") + "/")
        if is_above and len(point) >= len(best):
            best, name = point, kind.partition(".")[2] or kind
    return name
