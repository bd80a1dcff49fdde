"""The images that are open on a node: where each is, who uses it, and which go when there are too many.

```
locks/<digest>      shared by all who use it; alone by who makes or removes it, who has <digest>.maker first
records/<digest>    written last, removed first: without it nothing else of that image is trusted
trees/<digest>      the folder that is used: unpacked, or what an image is mounted at
files/<digest>      the image that is mounted, or the file: a copy whose bytes were verified
coming/<digest>     what is not finished
```

Whoever holds the lock of an image alone knows that what is there without a record was left by a process that died. A
record counts for the boot that it was written in: what a machine had not written to its disk when it stopped may
look whole.
"""

from __future__ import annotations

import dataclasses
import json
import os
import shutil

from gristmill._errors import ImageError
from gristmill._images import mounts, storage
from gristmill._images.locks import Lock, touch

#: Ways whose images are mounted, and may be seen by some processes and not by others.
MOUNTED = ("loop", "squashfuse")
#: The way of what is no image: it is there as it is.
FILE = "file"
_PARTS = ("locks", "records", "trees", "files", "coming")
#: Says how many bytes images may take on a node's disk; else it is a part of that disk.
BUDGET_VARIABLE = "GRISTMILL_IMAGE_BUDGET"
_PART_OF_DISK = 4


@dataclasses.dataclass(frozen=True)
class Record:
    """An image that is open."""

    digest: str
    way: str
    #: Bytes on the node's disk.
    size: int
    boot: str


class Node:
    """The folder of a node's open images."""

    def __init__(self, folder: str | None = None, *, is_for_files: bool = False) -> None:
        #: What is opened there is a file, and no image.
        self.is_for_files = is_for_files
        if folder is None:
            self.folder = storage.local_folder("files" if is_for_files else "images")
        else:
            self.folder = storage.own_folder(*os.path.split(os.path.abspath(folder)))
        for part in _PARTS:
            os.makedirs(os.path.join(self.folder, part), mode=0o700, exist_ok=True)

    def path(self, part: str, digest: str) -> str:
        """Where a part of an image is."""
        return os.path.join(self.folder, part, digest)

    def place_of(self, record: Record) -> str:
        """Where what is open is used."""
        return self.path("files" if record.way == FILE else "trees", record.digest)

    def lock(self, digest: str) -> Lock:
        """The lock of an image, not yet taken."""
        return Lock(self.path("locks", digest))

    def maker(self, digest: str) -> Lock:
        """The lock of whoever makes an image, taken before that image's lock is to be had alone."""
        return Lock(self.path("locks", digest + ".maker"))

    def find(self, digest: str) -> Record | None:
        """An image that is open, and seen by this process; its lock is held. That counts as a use of it."""
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
        """Mounts an image anew where it is not seen: in another mount namespace, or once what served it has died."""
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
        """An image is open now; its lock is held alone."""
        path = self.path("records", digest)
        coming = self.path("coming", digest + ".record")
        with open(coming, "w") as file:
            json.dump(dataclasses.asdict(Record(digest, way, size, _boot())), file)
        os.rename(coming, path)

    def clear(self, digest: str) -> None:
        """Removes all of an image but its lock, which is held alone. What is mounted and still used stays as it is."""
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
        """The images that are open, the ones used last first."""
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
        """Whether somebody uses an image now."""
        with self.lock(digest) as lock:
            return not lock.try_take()

    def forget(self, digest: str) -> bool:
        """Removes an image that nobody uses; whether nobody does."""
        with self.maker(digest) as maker, self.lock(digest) as lock:
            if not maker.try_take() or not lock.try_take():
                return False
            try:
                self.clear(digest)
            except ImageError:  # somebody uses its mount without having asked
                return False
            _remove(lock.path + ".mount")
            lock.remove()
            maker.remove()
            return True

    def make_room(self, size: int, budget: int | None = None) -> None:
        """Removes images that nobody uses, the ones used longest ago first, until so many bytes more have room."""
        self.sweep()
        limit = self.budget() if budget is None else budget
        records = self.records()
        taken = sum(record.size for record in records)
        while records and (taken + size > limit or storage.free_size(self.folder) < size):
            record = records.pop()
            if self.forget(record.digest):
                taken -= record.size

    def budget(self) -> int:
        """Bytes that images may take here."""
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
        """Removes what was left by processes that died, and by an earlier boot."""
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
