"""The standard streams of a worker, which note what tasks write.

What a task writes is out before its result is. The engine flushes both streams after a task that has written text, and
waits until standard error, which goes through the keeper, has been forwarded. The streams tell it when there is
something to do, so that other tasks pay nothing. Before a worker writes to standard output, it also waits for standard
error, so that the lines of both keep their order.
"""

from __future__ import annotations

import io
import sys

from gristmill import _native

TYPE_CHECKING = False
if TYPE_CHECKING:
    from _typeshed import ReadableBuffer

#: The streams of this process as the engine made them. A task may put others in their place.
_streams: list[io.TextIOWrapper] = []


class _Stdout(io.FileIO):
    """Descriptor 1. Before it writes, what was written to standard error is out."""

    def write(self, data: ReadableBuffer, /) -> int | None:  # type: ignore[override]
        """Writes once, as ``FileIO.write``."""
        _native.await_stderr()
        return super().write(data)


class _Stderr(io.FileIO):
    """Descriptor 2, which notes that it has written."""

    def write(self, data: ReadableBuffer, /) -> int | None:  # type: ignore[override]
        """Writes once, as ``FileIO.write``."""
        try:
            return super().write(data)
        finally:
            _native.note_stderr()


class _Buffer(io.BufferedWriter):
    """A buffer that notes that it may hold text."""

    def write(self, data: ReadableBuffer, /) -> int:
        """Adds to the buffer, as ``BufferedWriter.write``."""
        try:
            return super().write(data)
        finally:
            # After the write: the end of a task may flush, and forget the note, while another thread is in the write.
            _native.note_text()


def adopt() -> None:
    """Replaces the standard streams of this interpreter by streams that note what is written.

    Call it before code of the program runs, which may keep the streams. The streams write each line at once.
    """
    for name, kind, descriptor in (("stdout", _Stdout, 1), ("stderr", _Stderr, 2)):
        former = getattr(sys, name)
        if type(former) is not io.TextIOWrapper:
            continue  # closed in the program, for example
        former.flush()
        raw = kind(descriptor, "wb", closefd=False)
        raw.name = f"<{name}>"
        is_buffered = isinstance(former.buffer, io.BufferedWriter)
        stream = io.TextIOWrapper(
            _Buffer(raw) if is_buffered else raw,
            encoding=former.encoding,
            errors=former.errors,
            newline="\n",
            line_buffering=True,
            write_through=True,
        )
        stream.mode = "w"  # type: ignore[misc]
        setattr(sys, name, stream)
        setattr(sys, f"__{name}__", stream)
        _streams.append(stream)


def flush() -> None:
    """Flushes the streams. A stream that takes nothing, or that a task has closed, is left as it is."""
    for stream in _streams:
        try:  # noqa: SIM105 - contextlib is not worth loading
            stream.flush()
        except (OSError, ValueError):
            pass
