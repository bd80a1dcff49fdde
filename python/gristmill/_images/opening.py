"""Opening of an image on a node: the result is a folder that all processes of the node share.

The first process that requests an image opens it, and the others wait. It uses the best way that works on this node,
and verifies the hash before any process sees the content. The image stays while a process uses it, and afterwards until
its disk space is needed.
"""

from __future__ import annotations

import json
import os
import stat

from gristmill._errors import ImageError
from gristmill._images import mounts, probes, squashfs, storage
from gristmill._images.contents import MANIFEST
from gristmill._images.node import FILE, Node
from gristmill._images.sources import Source

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from gristmill._images.locks import Lock
    from gristmill._images.node import Record


class Opened:
    """An open image or file. It is kept until ``close``, in this process and in all processes forked meanwhile."""

    def __init__(self, path: str, record: Record, lock: Lock) -> None:
        #: Folder with the image's content, or the path of the file. It is read-only by agreement.
        self.path = path
        self.digest = record.digest
        #: Way in which it was opened.
        self.way = record.way
        self._lock = lock

    def close(self) -> None:
        """Releases the image or file; a second call does nothing."""
        self._lock.close()

    def __enter__(self) -> Opened:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def open_image(
    path: str, digest: str | None = None, *, node: Node | None = None, budget: int | None = None
) -> Opened:
    """Opens the image with this digest from a file, unless it is open already.

    Without a digest the function accepts the file as it is.
    """
    from gristmill import _native

    node = node or Node()
    if digest is not None and not (len(digest) == 64 and set(digest) <= set("0123456789abcdef")):
        raise ImageError(f"{digest!r} is not a digest of 64 hexadecimal digits")
    if digest is None:
        try:
            digest = _native.image_digest(path)
        except OSError as error:
            raise ImageError(f"{path} cannot be opened: {error}") from error
    return open_source(Source(path), digest, node, budget)


def open_source(source: Source, digest: str, node: Node, budget: int | None = None) -> Opened:
    """Opens the content of a source that has this digest, unless it is open already: as an image, or as a plain file.

    Raises ``ImageError`` if it cannot be used on this node.
    """
    lock = node.lock(digest)
    try:
        while True:
            opened = _share(node, digest, lock)
            if opened is None:
                # A process that waits for the exclusive lock must not block users. Only one process waits, and it looks
                # again first.
                lock.release()
                with node.maker(digest) as maker:
                    maker.take()
                    opened = _share(node, digest, lock)
                    if opened is None:
                        lock.take()
                        _prepare(node, source, digest, budget)
                        continue
            if opened.way != FILE:
                _check(opened.path, f"image {digest[:12]}", source.is_run)
            return opened
    except BaseException:
        lock.close()
        raise


def find(digest: str, node: Node) -> Opened | None:
    """Returns the image or file with this digest if it is open. Waits for a process that is opening it now."""
    lock = node.lock(digest)
    opened = None
    try:
        opened = _share(node, digest, lock)
    finally:
        if opened is None:
            lock.close()
    return opened


def _share(node: Node, digest: str, lock: Lock) -> Opened | None:
    lock.share()
    record = node.find(digest)
    if record is None:
        return None
    return Opened(node.place_of(record), record, lock)


def _prepare(node: Node, source: Source, digest: str, budget: int | None) -> None:
    """Opens an image that is not open yet. The caller holds its lock exclusively."""
    try:
        node.clear(digest)
        try:
            way, size = _make(node, source, digest, budget)
        except OSError as error:
            if not storage.is_full(error):
                raise
            # Other files may fill the disk too, so all unused images are removed.
            node.clear(digest)
            way, size = _make(node, source, digest, 0)
        node.note(digest, way, size)
    except OSError as error:
        node.clear(digest)
        if storage.is_full(error):
            raise storage.no_space(f"open {source.path}", node.folder, source.needed) from error
        raise ImageError(f"{source.path} cannot be opened: {error}") from error
    except BaseException:
        node.clear(digest)
        raise


def _make(node: Node, source: Source, digest: str, budget: int | None) -> tuple[str, int]:
    """Opens an image by the best way that works. Returns that way and the bytes that the image takes."""
    if node.is_for_files:
        size = source.needed = source.size()
        node.make_room(size, budget)
        _copy(node, source, digest)
        return FILE, size
    path = source.path
    if source.brought is not None:
        source.needed = source.size()
        node.make_room(source.needed, budget)
        path = _copy(node, source, digest)
    form = format_of(path)
    way = probes.choose(form, node.folder)
    size = source.needed = _size(path, form, way)
    node.make_room(size, budget)
    _WAYS[way](node, source, digest)
    return way, size


def format_of(path: str) -> str:
    """Returns the format of an image, from its first bytes."""
    from gristmill import _native

    with open(path, "rb") as file:
        if file.read(len(squashfs.MAGIC)) == squashfs.MAGIC:
            return "squashfs"
    _native.image_head(path)
    return "tar"


def _size(path: str, form: str, way: str) -> int:
    """Returns the bytes that an image will take on the node's disk, estimated from its header."""
    from gristmill import _native

    size = os.path.getsize(path)
    if way == "unpack":
        content_size, count = _native.image_head(path)
        # Each file wastes half of its last block on average, and has a directory entry.
        return content_size + count * 2560
    return 4 * size if way == "unsquash" else size


def _unpack(node: Node, source: Source, digest: str) -> None:
    from gristmill import _native

    coming = node.path("coming", digest)
    path = source.path if source.brought is None else _copy(node, source, digest)
    _native.image_unpack(path, digest, coming, _native.cpu_count())
    os.rename(coming, node.path("trees", digest))
    if source.brought is not None:
        os.unlink(path)


def _copy(node: Node, source: Source, digest: str) -> str:
    """Returns a verified copy that other users cannot change."""
    coming, file = node.path("coming", digest + ".image"), node.path("files", digest)
    if not os.path.exists(file):
        source.write_to(coming, digest)
        os.rename(coming, file)
    return file


def _mount_by(way: str) -> Callable[[Node, Source, str], None]:
    def mount(node: Node, source: Source, digest: str) -> None:
        file, tree = _copy(node, source, digest), node.path("trees", digest)
        os.mkdir(tree)
        mounts.mount(way, file, tree)

    return mount


def _unsquash(node: Node, source: Source, digest: str) -> None:
    file, coming = _copy(node, source, digest), node.path("coming", digest)
    squashfs.unpack(file, coming)
    os.unlink(file)
    for folder, folders, files in os.walk(coming):
        for name in (*folders, *files):
            found = os.lstat(os.path.join(folder, name))
            kind = stat.S_IFMT(found.st_mode)
            if kind not in (stat.S_IFREG, stat.S_IFDIR, stat.S_IFLNK) or found.st_mode & 0o6000:
                raise ImageError(
                    f"{source.path} is hostile: {name} in it is a device or a pipe, or is setuid or setgid"
                )
    os.rename(coming, node.path("trees", digest))


_WAYS: dict[str, Callable[[Node, Source, str], None]] = {
    "unpack": _unpack,
    "loop": _mount_by("loop"),
    "unsquash": _unsquash,
    "squashfuse": _mount_by("squashfuse"),
}


def _check(folder: str, name: str, is_run: bool) -> None:
    """Raises ``ImageError`` if this node lacks the machine type of an image, or the interpreter for its programs."""
    try:
        with open(os.path.join(folder, MANIFEST)) as file:
            said = json.load(file)
        interpreter, machine, version = said["interpreter"], said["machine"], said["python"]
    except (OSError, ValueError, LookupError, TypeError) as error:
        raise ImageError(f"{name} is not an image of gristmill: its {MANIFEST}: {error}") from error
    if machine != os.uname().machine:
        raise ImageError(
            f"{name} cannot be used here: it is for {machine}, and this is {os.uname().machine}"
        )
    is_there = os.path.isfile(os.path.join(folder, "bin", "python"))
    if is_run and interpreter and said.get("environment") and not is_there:
        raise ImageError(
            f"{name} cannot be used here: it was made with the interpreter {interpreter} (Python {version}), which "
            "this node does not have: pack the image with --with-python"
        )
