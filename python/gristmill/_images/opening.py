"""Opens an image on a node: what comes of it is a folder, which all processes of the node share.

The first who asks opens it while others wait, by the best way that works here; its bytes are hashed before anybody sees
one of them. It stays while anybody uses it, and after that until its room is needed.
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
    """What is open on a node. It is kept until this is closed, in this process and all that it forked meanwhile."""

    def __init__(self, path: str, record: Record, lock: Lock) -> None:
        #: The folder that an image's content is in, or the file; not to be written to.
        self.path = path
        self.digest = record.digest
        #: How it was opened.
        self.way = record.way
        self._lock = lock

    def close(self) -> None:
        """Says that it is not used any more; once more does nothing."""
        self._lock.close()

    def __enter__(self) -> Opened:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def open_image(
    path: str, digest: str | None = None, *, node: Node | None = None, budget: int | None = None
) -> Opened:
    """Opens the image of this digest, which is in a file unless it is open already.

    Without a digest the file is taken for what it is.
    """
    from gristmill import _native

    node = node or Node()
    if digest is not None and not (len(digest) == 64 and set(digest) <= set("0123456789abcdef")):
        raise ImageError(f"{digest!r} is no digest: 64 hexadecimal digits are expected")
    if digest is None:
        try:
            digest = _native.image_digest(path)
        except OSError as error:
            raise ImageError(f"{path} cannot be opened: {error}") from error
    return open_source(Source(path), digest, node, budget)


def open_source(source: Source, digest: str, node: Node, budget: int | None = None) -> Opened:
    """Opens what a source has and whose digest this is, unless it is open already: an image, or a file among files.

    Raises ``ImageError`` if it cannot be used here.
    """
    lock = node.lock(digest)
    try:
        while True:
            opened = _share(node, digest, lock)
            if opened is None:
                # Whoever waits for it alone must not wait for users: only one waits, and looks again first.
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
    """What has this digest, if it is open; waits for whoever opens it now."""
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
    """Opens what nobody has opened, and whose lock is held alone."""
    try:
        node.clear(digest)
        try:
            way, size = _make(node, source, digest, budget)
        except OSError as error:
            if not storage.is_full(error):
                raise
            # What the images take is not all that fills a disk: all that nobody uses go.
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
    """Opens it by the best way that works; gives that, and the bytes that it takes."""
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
    """The format of an image, by its first bytes."""
    from gristmill import _native

    with open(path, "rb") as file:
        if file.read(len(squashfs.MAGIC)) == squashfs.MAGIC:
            return "squashfs"
    _native.image_head(path)
    return "tar"


def _size(path: str, form: str, way: str) -> int:
    """The bytes that an image will take on the node's disk, as far as its head says."""
    from gristmill import _native

    size = os.path.getsize(path)
    if way == "unpack":
        content_size, count = _native.image_head(path)
        # Each file fills its last block half, on average, and has an entry of its own.
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
    """A copy that nobody else can change, of which every byte is right."""
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
                    f"{source.path} is hostile: {name} in it is a device, a pipe or gives rights"
                )
    os.rename(coming, node.path("trees", digest))


_WAYS: dict[str, Callable[[Node, Source, str], None]] = {
    "unpack": _unpack,
    "loop": _mount_by("loop"),
    "unsquash": _unsquash,
    "squashfuse": _mount_by("squashfuse"),
}


def _check(folder: str, name: str, is_run: bool) -> None:
    """Complains if an image needs a machine, or, for programs in it, an interpreter, that this node does not have."""
    try:
        with open(os.path.join(folder, MANIFEST)) as file:
            said = json.load(file)
        interpreter, machine, version = said["interpreter"], said["machine"], said["python"]
    except (OSError, ValueError, LookupError, TypeError) as error:
        raise ImageError(f"{name} is no image of gristmill: {MANIFEST} in it: {error}") from error
    if machine != os.uname().machine:
        raise ImageError(
            f"{name} cannot be used here: it is for {machine}, and this is {os.uname().machine}"
        )
    is_there = os.path.isfile(os.path.join(folder, "bin", "python"))
    if is_run and interpreter and said.get("environment") and not is_there:
        raise ImageError(
            f"{name} cannot be used here: it was made with the interpreter {interpreter} (Python {version}), which "
            "this node does not have: pack it --with-python"
        )
