"""A progress bar of our own: one line on standard error, a few times a second, nothing if it is no terminal."""

from __future__ import annotations

import contextlib
import operator
import sys
import time
from collections.abc import Iterable, Iterator, Sequence
from typing import TextIO, TypeVar

T = TypeVar("T")

_WIDTH = 30
_INTERVAL_S = 0.1


def length(iterables: Sequence[Iterable[object]]) -> int | None:
    """Returns the number of items that a map over these has, if all of them report a length."""
    lengths = [_length(iterable) for iterable in iterables]
    return None if -1 in lengths else min(lengths, default=0)


def _length(iterable: Iterable[object]) -> int:
    try:
        return operator.length_hint(iterable, -1)
    except Exception:  # the bar is only decoration: what a length raises is no reason to fail
        return -1


def with_progress(
    items: Iterator[T], total: int | None, stream: TextIO | None = None
) -> Iterator[T]:
    """Passes ``items`` on and shows their number and their rate."""
    stream = stream or sys.stderr
    return _shown(items, total, stream) if _is_terminal(stream) else items


def _shown(items: Iterator[T], total: int | None, stream: TextIO) -> Iterator[T]:
    start = shown = time.monotonic()
    count = 0
    try:
        for item in items:
            yield item
            count += 1
            if count & 0xFF == 0 or time.monotonic() - shown > _INTERVAL_S:
                shown = time.monotonic()
                _write(stream, "\r" + _line(count, total, shown - start))
    finally:
        _write(stream, "\r" + _line(count, total, time.monotonic() - start) + "\n")


def _is_terminal(stream: TextIO | None) -> bool:
    """Returns whether the bar is shown: only if standard error exists, is open, and is a terminal."""
    try:
        return stream is not None and stream.isatty()
    except Exception:  # standard error may have been replaced by any object
        return False


def _write(stream: TextIO, text: str) -> None:
    """Shows ``text``. If the stream fails, only the bar is lost."""
    with contextlib.suppress(Exception):
        stream.write(text)
        stream.flush()


def _line(count: int, total: int | None, elapsed_s: float) -> str:
    rate = count / elapsed_s if elapsed_s > 0 else 0.0
    if not total:
        return f"{count:,} tasks  {rate:,.0f}/s"
    filled = _WIDTH * count // total
    left_s = (total - count) / rate if rate else 0.0
    bar = "#" * filled + "-" * (_WIDTH - filled)
    return f"[{bar}] {count:,}/{total:,}  {rate:,.0f}/s  {left_s:,.0f} s left "
