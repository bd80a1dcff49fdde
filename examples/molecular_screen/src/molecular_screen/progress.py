"""A progress bar on standard error, drawn only on a terminal."""

import sys
import time
from typing import TextIO

BAR_WIDTH = 32
DRAW_EVERY_S = 0.1
LOOK_EVERY = 64
"""The number of molecules between two readings of the clock, which then cost under 1 ns a molecule."""


class Progress:
    """A counter of finished molecules that shows the progress of the screen, its rate and the remaining time."""

    def __init__(self, total: int, stream: TextIO = sys.stderr) -> None:
        self._total = max(total, 1)
        self._stream = stream
        self._shown = stream.isatty()
        self._started = self._drawn = time.perf_counter()
        self._done = 0

    def advance(self) -> None:
        """Counts one more molecule."""
        self._done += 1
        if self._shown and self._done % LOOK_EVERY == 0:
            now = time.perf_counter()
            if now - self._drawn >= DRAW_EVERY_S:
                self._drawn = now
                self._draw(now)

    def close(self) -> None:
        """Removes the bar, so that the output below starts on an empty line."""
        if self._shown:
            self._stream.write("\r\x1b[K")
            self._stream.flush()

    def _draw(self, now: float) -> None:
        share = min(self._done / self._total, 1.0)
        rate = self._done / (now - self._started)
        filled = "█" * round(share * BAR_WIDTH)
        left_s = (self._total - self._done) / rate
        self._stream.write(
            f"\r\x1b[K{filled:░<{BAR_WIDTH}} {share:4.0%}  {self._done:,} of {self._total:,}"
            f" molecules  {rate:,.0f}/s  {left_s:.0f} s left"
        )
        self._stream.flush()
