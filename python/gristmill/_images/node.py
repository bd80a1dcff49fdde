"""Open images of a node: their locations, their users, and the order in which they are removed.

```
locks/<digest>      held shared by all users, and exclusively by the maker, which first holds <digest>.maker
records/<digest>    written last and removed first: without it no other part of the image is trusted
trees/<digest>      folder in use: unpacked, or the mount point of an image
files/<digest>      mounted image, or a plain file: a copy whose bytes were verified
coming/<digest>     unfinished parts
```

An exclusive holder of an image's lock knows that parts without a record were left by a dead process. A record is valid
only for the boot in which it was written: data that never reached the disk before a crash may still look complete.
"""

from __future__ import annotations

import dataclasses
import json
import os
import shutil

from gristmill._errors import ImageError
from gristmill._images import mounts, storage
from gristmill._images.locks import Lock, touch

#: Ways that mount images. Some processes of the node may not see such a mount.
MOUNTED = ("loop", "squashfuse")
#: Way of a plain file, which is used as it is.
FILE = "file"
_PARTS = ("locks", "records", "trees", "files", "coming")
#: Environment variable with the maximum total size of images on a node's disk, in bytes; by default a part of that
#: disk.
BUDGET_VARIABLE = "GRISTMILL_IMAGE_BUDGET"
_PART_OF_DISK = 4


@dataclasses.dataclass(frozen=True)
class Record:
    """An open image."""

    digest: str
    way: str
    #: Bytes on the node's disk.
    size: int
    boot: str


class Node:
    """Storage of a node's open images."""

    def __init__(self, folder: str | None = None, *, is_for_files: bool = False) -> None:
        #: True if the storage holds plain files instead of images.
        self.is_for_files = is_for_files
        if folder is None:
            self.folder = storage.local_folder("files" if is_for_files else "images")
        else:
            self.folder = storage.own_folder(*os.path.split(os.path.abspath(folder)))
        for part in _PARTS:
            os.makedirs(os.path.join(self.folder, part), mode=0o700, exist_ok=True)

    def path(self, part: str, digest: str) -> str:
        """Returns the path of one part of an image."""
        return os.path.join(self.folder, part, digest)

    def place_of(self, record: Record) -> str:
        """Returns the path where an open image or file is used."""
        return self.path("files" if record.way == FILE else "trees", record.digest)

    def lock(self, digest: str) -> Lock:
        """Returns the lock of an image, not yet taken."""
        return Lock(self.path("locks", digest))

    def maker(self, digest: str) -> Lock:
        """Returns the lock that a process holds while it makes an image, not yet taken.

        The process takes this lock first, and then the image's lock exclusively.
        """
        return Lock(self.path("locks", digest + ".maker"))

    def find(self, digest: str) -> Record | None:
        """Returns the record of an open image that this process can see, or ``None``, and marks the image as used.

        The caller holds the lock of the image.
        """
        record = self._read(digest)
        if record is None:
            return None
        place = self.place_of(record)
        if not os.path.exists(place):
            return None
        if record.way in MOUNTED:
            self._mount(record, place)
        touch(self.path("records", digest))
        return record

    def _mount(self, record: Record, tree: str) -> None:
        """Mounts an image again if this process does not see it: in another mount namespace, or if its server died."""
        if mounts.is_mounted(tree):
            return
        with Lock(self.path("locks", record.digest + ".mount")) as lock:
            lock.take()
            if not mounts.is_mounted(tree):
                mounts.mount(record.way, self.path("files", record.digest), tree)

    def _read(self, digest: str) -> Record | None:
        try:
            with open(self.path("records", digest)) as file:
                record = Record(**json.load(file))
        except (OSError, ValueError, TypeError):
            return None
        return record if record.boot == _boot() else None

    def note(self, digest: str, way: str, size: int) -> None:
        """Records that an image is open. The caller holds its lock exclusively."""
        path = self.path("records", digest)
        coming = self.path("coming", digest + ".record")
        with open(coming, "w") as file:
            json.dump(dataclasses.asdict(Record(digest, way, size, _boot())), file)
        os.rename(coming, path)

    def clear(self, digest: str) -> None:
        """Removes all parts of an image except its lock, which the caller holds exclusively. Keeps a mount that is in
        use.
        """
        tree, record = self.path("trees", digest), self.path("records", digest)
        while mounts.is_mounted(tree):
            mounts.unmount(tree)
        _remove(record)
        for path in (
            tree,
            *(self.path("coming", digest + end) for end in ("", ".record", ".image")),
        ):
            _remove(path)
        _remove(self.path("files", digest))

    def records(self) -> list[Record]:
        """Returns the records of the open images, most recently used first."""
        names = os.listdir(os.path.join(self.folder, "records"))
        found = [(self._age(name), self._read(name)) for name in names]
        found.sort(key=lambda one: one[0])
        return [record for _, record in reversed(found) if record is not None]

    def _age(self, digest: str) -> int:
        try:
            return os.stat(self.path("records", digest)).st_mtime_ns
        except FileNotFoundError:
            return 0

    def is_used(self, digest: str) -> bool:
        """Returns whether a process uses an image now."""
        with self.lock(digest) as lock:
            return not lock.try_take()

    def forget(self, digest: str) -> bool:
        """Removes an image that no process uses. Returns whether it was removed."""
        with self.maker(digest) as maker, self.lock(digest) as lock:
            if not maker.try_take() or not lock.try_take():
                return False
            try:
                self.clear(digest)
            except ImageError:  # a process uses the mount without a lock
                return False
            _remove(lock.path + ".mount")
            lock.remove()
            maker.remove()
            return True

    def make_room(self, size: int, budget: int | None = None) -> None:
        """Removes unused images, least recently used first, until ``size`` more bytes fit."""
        self.sweep()
        limit = self.budget() if budget is None else budget
        records = self.records()
        taken = sum(record.size for record in records)
        while records and (taken + size > limit or storage.free_size(self.folder) < size):
            record = records.pop()
            if self.forget(record.digest):
                taken -= record.size

    def budget(self) -> int:
        """Returns the maximum total size of images on this node, in bytes."""
        said = os.environ.get(BUDGET_VARIABLE)
        if said:
            try:
                return int(said)
            except ValueError:
                raise ImageError(
                    f"{BUDGET_VARIABLE}={said}: a number of bytes is expected"
                ) from None
        disk = os.statvfs(self.folder)
        return disk.f_blocks * disk.f_frsize // _PART_OF_DISK

    def sweep(self) -> None:
        """Removes the remains of dead processes, and of an earlier boot."""
        there: set[str] = set()
        for part in _PARTS[1:]:
            there.update(
                name.partition(".")[0] for name in os.listdir(os.path.join(self.folder, part))
            )
        for digest in there:
            if self._read(digest) is None:
                self.forget(digest)


def _remove(path: str) -> None:
    if os.path.isdir(path) and not os.path.islink(path):
        shutil.rmtree(path)
    elif os.path.lexists(path):
        os.unlink(path)


def _boot() -> str:
    try:
        with open("/proc/sys/kernel/random/boot_id") as file:
            return file.read().strip()
    except OSError:
        return ""
