"""A progress bar of our own: one line on standard error, a few times a second, nothing when it is not a terminal."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from typing import TextIO, TypeVar

T = TypeVar("T")

_WIDTH = 30
_INTERVAL_S = 0.1


def with_progress(
    items: Iterator[T], total: int | None, stream: TextIO | None = None
) -> Iterator[T]:
    """Passes ``items`` on and shows how many came, and how fast."""
    stream = stream or sys.stderr
    if not stream.isatty():
        yield from items
        return
    start = shown = time.monotonic()
    count = 0
    try:
        for item in items:
            yield item
            count += 1
            if count & 0xFF == 0 or time.monotonic() - shown > _INTERVAL_S:
                shown = time.monotonic()
                stream.write("\r" + _line(count, total, shown - start))
                stream.flush()
    finally:
        stream.write("\r" + _line(count, total, time.monotonic() - start) + "\n")
        stream.flush()


def _line(count: int, total: int | None, elapsed_s: float) -> str:
    rate = count / elapsed_s if elapsed_s > 0 else 0.0
    if not total:
        return f"{count:,} tasks  {rate:,.0f}/s"
    filled = _WIDTH * count // total
    left_s = (total - count) / rate if rate else 0.0
    bar = "#" * filled + "-" * (_WIDTH - filled)
    return f"[{bar}] {count:,}/{total:,}  {rate:,.0f}/s  {left_s:,.0f} s left "
