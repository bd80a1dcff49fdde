"""File system of a folder, and whether other nodes share it."""

from __future__ import annotations

import dataclasses
import os
import re

#: File systems that nodes share, as the kernel names them in ``mountinfo``. They are slow for many small files.
_SHARED = {
    *("nfs", "nfs4", "lustre", "gpfs", "beegfs", "fhgfs", "ceph", "afs", "orangefs", "pvfs2", "panfs", "wekafs"),
    *("ocfs2", "gfs2", "glusterfs", "smbfs", "cifs", "smb2", "smb3", "9p", "virtiofs", "ncpfs"),
}  # fmt: skip
#: File systems of one machine.
_LOCAL = {
    *("ext2", "ext3", "ext4", "xfs", "btrfs", "zfs", "f2fs", "jfs", "bcachefs", "reiserfs", "ntfs3", "vfat", "exfat"),
    *("tmpfs", "ramfs", "rootfs", "overlay", "aufs", "squashfs", "erofs", "iso9660", "proc", "sysfs", "devtmpfs"),
}  # fmt: skip
#: Programs behind FUSE mounts: the first set serves files of other machines, the second serves files of this machine.
_FUSE_SHARED = {
    *("sshfs", "glusterfs", "ceph", "ceph-fuse", "cvmfs", "cvmfs2", "beegfs", "wekafs", "juicefs"),
    *("s3fs", "goofys", "gcsfuse", "rclone", "moosefs", "mfsmount", "lizardfs", "davfs2"),
}
_FUSE_LOCAL = {"squashfuse", "squashfuse_ll", "fuse-overlayfs", "fuseblk", "ntfs-3g", "bindfs"}


@dataclasses.dataclass(frozen=True)
class FileSystem:
    """The file system of a folder."""

    #: Name as the kernel gives it in ``mountinfo``, such as "ext4" or "fuse.sshfs"; "unknown" if it does not.
    name: str
    #: True if other nodes see the same files; ``None`` if unknown.
    is_shared: bool | None

    @property
    def may_be_shared(self) -> bool:
        """Returns whether other nodes share it, or may do so: an unknown program behind FUSE may serve their files."""
        return self.is_shared or (self.is_shared is None and self.name.startswith("fuse"))


def of(folder: str) -> FileSystem:
    """Returns the file system of a folder on this machine. The folder need not exist."""
    return named(_name(os.path.realpath(folder), _mounts()))


def named(name: str) -> FileSystem:
    """Returns the file system of a name."""
    kind, _, program = name.partition(".")
    if kind in ("fuse", "fuseblk"):
        return FileSystem(name, _is_in(program or kind, _FUSE_SHARED, _FUSE_LOCAL))
    return FileSystem(name, _is_in(name, _SHARED, _LOCAL))


def _is_in(name: str, shared: set[str], local: set[str]) -> bool | None:
    return True if name in shared else False if name in local else None


def _mounts() -> str:
    try:
        with open("/proc/self/mountinfo", encoding="utf-8", errors="surrogateescape") as file:
            return file.read()
    except OSError:
        return ""


def _name(folder: str, mounts: str) -> str:
    """Returns the name of the file system at the deepest mount point at or above the folder.

    If several are mounted there, the last one counts.
    """
    best, name = "", "unknown"
    for line in mounts.split("\n"):
        before, _, after = line.partition(" - ")
        fields = before.split(" ")
        if len(fields) < 5:
            continue
        point = re.sub(r"\\(\d{3})", lambda found: chr(int(found[1], 8)), fields[4])
        is_above = folder == point or folder.startswith(point.rstrip("/") + "/")
        if is_above and len(point) >= len(best):
            best, name = point, after.partition(" ")[0]
    return name
