"""A thread that calls a function periodically."""

from __future__ import annotations

import logging
import threading
from typing import TYPE_CHECKING

from gristmill._options import shown

if TYPE_CHECKING:
    from collections.abc import Callable

#: Digits of each number of a period. A century in hours has six digits, and threads can wait for three centuries.
_DIGITS_MAX = 6

_log = logging.getLogger("parsl.gristmill.memoization")


def parse_period(period: str | None) -> float:
    """Parses ``"HH:MM:SS"`` into seconds. Raises ``ConfigurationError`` for anything else, and for a period of zero."""
    from gristmill.parsl._kernel.errors import ConfigurationError

    if period is None:
        raise ConfigurationError('checkpoint_mode="periodic" needs a checkpoint_period')
    parts = period.split(":") if isinstance(period, str) else []
    if len(parts) != 3 or not all(map(_is_number, parts)):
        raise ConfigurationError(f'checkpoint_period is "HH:MM:SS", not {shown(period)}')
    hours, minutes, seconds = map(int, parts)
    total = hours * 3600 + minutes * 60 + seconds
    if total == 0:
        raise ConfigurationError("checkpoint_period must be longer than nothing")
    return total


def _is_number(part: str) -> bool:
    return part.isascii() and part.isdigit() and len(part) <= _DIGITS_MAX


class CheckpointTimer:
    """A timer that calls a function after every period until it is closed. It logs what the function raises.

    :param period: in seconds.
    """

    def __init__(self, call: Callable[[], None], period: float) -> None:
        self._call = call
        self._period = period
        self._end = threading.Event()
        self._thread = threading.Thread(target=self._run, name="Checkpoint", daemon=True)
        self._thread.start()

    def _run(self) -> None:
        while not self._end.wait(self._period):
            try:
                self._call()
            except Exception:
                _log.exception(
                    "the periodic checkpoint failed: its results are kept for the next one"
                )

    def close(self) -> None:
        """Stops the timer. Returns after a running call has ended."""
        self._end.set()
        self._thread.join()
