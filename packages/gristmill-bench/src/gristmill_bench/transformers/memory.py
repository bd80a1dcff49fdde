"""Objects in shared memory: workers read arrays where they were written, without a copy."""

from __future__ import annotations

import mmap
import os
import pickle
from pathlib import Path
from typing import Any, NamedTuple

from gristmill import instruments
from gristmill_bench.interfaces import Transformer
from gristmill_bench.transformers.base import TransformerPlugin
from gristmill_bench.transformers.files import Folder

#: Folder whose files are in memory.
_MEMORY = "/dev/shm"
#: Alignment of buffers in bytes, as any array of numbers may need it.
_ALIGNED = 64


class SegmentName(NamedTuple):
    """The name of an object in shared memory: its file, the size of its pickle, and the sizes of its buffers."""

    path: str
    pickled: int
    buffers: tuple[int, ...]


class SharedMemory(TransformerPlugin):
    """A file in ``/dev/shm`` for each object: for workers of this machine."""

    def open(self, folder: Path) -> Transformer:
        """Makes a folder in shared memory, which is removed at the end, or with the run if that is killed."""
        return _Segments(Path(os.environ.get(instruments.MEMORY_FOLDER, _MEMORY)))


class _Segments(Folder):
    def transform(self, value: Any) -> SegmentName:
        buffers: list[pickle.PickleBuffer] = []
        pickled = pickle.dumps(value, protocol=5, buffer_callback=buffers.append)
        raw = [buffer.raw() for buffer in buffers]
        name = SegmentName(self.new_path(), len(pickled), tuple(view.nbytes for view in raw))
        with open(name.path, "wb") as file:
            file.write(pickled)
            for begin, view in zip(_begins(name), raw, strict=True):
                file.seek(begin)
                file.write(view)
        return name

    def resolve(self, name: SegmentName) -> Any:
        with open(name.path, "rb") as file:
            # A task that writes to an array writes to a copy of its own.
            view = memoryview(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_COPY))
        buffers = [
            view[begin : begin + size]
            for begin, size in zip(_begins(name), name.buffers, strict=True)
        ]
        return pickle.loads(view[: name.pickled], buffers=buffers)

    def is_name(self, value: Any) -> bool:
        return type(value) is SegmentName


def _begins(name: SegmentName) -> list[int]:
    """Returns the offset of each buffer in the file."""
    begins, end = [], name.pickled
    for size in name.buffers:
        begins.append(-(-end // _ALIGNED) * _ALIGNED)
        end = begins[-1] + size
    return begins
