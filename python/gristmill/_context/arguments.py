"""Arguments of a setup; the large parts become one file of the context, which processes map instead of reading.

Each node stores this file once and receives it like other files. Processes share the memory of parts that they do not
change.
"""

from __future__ import annotations

import mmap
import os
import tempfile
from typing import TYPE_CHECKING, Any, NamedTuple

from gristmill import _pickling, _unpickling
from gristmill._errors import ImageError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from gristmill._images.opening import Opened

#: Minimum total size of the large parts, in bytes, for a file. If they have fewer bytes in total, they stay in the
#: description.
_FILE_MIN = 1 << 20
#: Alignment of each part in the file, in bytes: array libraries expect aligned data.
_ALIGNMENT = 64


class Dumped(NamedTuple):
    """Pickled arguments as they are sent to processes."""

    pickled: bytes
    #: File of the large parts, if any: path, digest, and the offset and size of each part in bytes.
    parts: tuple[str, str, list[tuple[int, int]]] | None
    #: Handle that keeps the file open on this node.
    file: Opened | None


def dump(args: Sequence[Any]) -> Dumped:
    """Pickles arguments. Raises ``UnpicklableError``, and ``ImageError`` if the disk has no space for the file."""
    buffers: list[memoryview] = []
    pickled = _pickling.dump_value(args, buffers, is_for_task=True)
    if not buffers:
        return Dumped(pickled, None, None)
    if sum(buffer.nbytes for buffer in buffers) < _FILE_MIN:
        return Dumped(_pickling.dump_value(args, is_for_task=True), None, None)
    opened, layout = _write(buffers)
    return Dumped(pickled, (opened.path, opened.digest, layout), opened)


def load(pickled: bytes, parts: tuple[str, str, list[tuple[int, int]]] | None) -> Any:
    """Returns the arguments that ``dump`` pickled. A process that changes large parts changes only its own copy."""
    if parts is None:
        return _unpickling.load(pickled, {})
    path, _, layout = parts
    with open(path, "rb") as file:
        memory = memoryview(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_COPY))
    buffers = [memory[offset : offset + size] for offset, size in layout]
    return _unpickling.load(pickled, {}, buffers)


def _write(buffers: list[memoryview]) -> tuple[Opened, list[tuple[int, int]]]:
    from gristmill import _native
    from gristmill._images.node import Node
    from gristmill._images.opening import open_source
    from gristmill._images.sources import Source

    node = Node(is_for_files=True)
    layout = []
    try:
        with tempfile.NamedTemporaryFile(prefix="arguments-", dir=node.folder) as file:
            for buffer in buffers:
                file.seek(-file.tell() % _ALIGNMENT, os.SEEK_CUR)
                layout.append((file.tell(), buffer.nbytes))
                file.write(buffer)
            file.flush()
            return open_source(Source(file.name), _native.image_digest(file.name), node), layout
    except OSError as error:
        size = sum(buffer.nbytes for buffer in buffers)
        raise ImageError(
            f"the large parts of the arguments, {size:,} bytes, cannot be written to "
            f"{node.folder}: {error.strerror}. Make room, "
            "or set GRISTMILL_LOCAL_DIR to a folder on a disk that has room"
        ) from error
