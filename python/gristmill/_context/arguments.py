"""The arguments of a setup: what is large of them is a file of the context, which processes map instead of reading it.

So they are on a node once, travel as files do, and processes share the memory of what they do not change.
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

#: Large parts that have fewer bytes together stay in the description.
_FILE_MIN = 1 << 20
#: Parts begin at multiples of it, bytes: as any library likes its arrays.
_ALIGNMENT = 64


class Dumped(NamedTuple):
    """Arguments, as processes are told them."""

    pickled: bytes
    #: The file of their large parts, if there is one: path, digest; where each begins, and how many bytes it has.
    parts: tuple[str, str, list[tuple[int, int]]] | None
    #: Keeps the file.
    file: Opened | None


def dump(args: Sequence[Any]) -> Dumped:
    """Pickles arguments. Raises ``UnpicklableError``, and ``ImageError`` where there is no room for a file."""
    buffers: list[memoryview] = []
    pickled = _pickling.dump_value(args, buffers, is_for_task=True)
    if not buffers:
        return Dumped(pickled, None, None)
    if sum(buffer.nbytes for buffer in buffers) < _FILE_MIN:
        return Dumped(_pickling.dump_value(args, is_for_task=True), None, None)
    opened, layout = _write(buffers)
    return Dumped(pickled, (opened.path, opened.digest, layout), opened)


def load(pickled: bytes, parts: tuple[str, str, list[tuple[int, int]]] | None) -> Any:
    """The arguments that were dumped. What a process changes of them is changed for itself alone."""
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
            f"their large parts, {size:,} bytes, cannot be written to {node.folder}: {error.strerror}. Make room, "
            "or set GRISTMILL_LOCAL_DIR to a folder on a disk that has it"
        ) from error
