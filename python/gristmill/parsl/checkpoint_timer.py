"""Calls something every so often, from a thread of its own."""

from __future__ import annotations

import logging
import threading
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

_log = logging.getLogger("parsl.gristmill.memoization")


def parse_period(period: str | None) -> float:
    """Reads ``"HH:MM:SS"``, as seconds. Raises ``ConfigurationError`` for anything else, and for no time at all."""
    from gristmill.parsl.errors import ConfigurationError

    if period is None:
        raise ConfigurationError('checkpoint_mode="periodic" needs a checkpoint_period')
    parts = period.split(":") if isinstance(period, str) else []
    if len(parts) != 3 or not all(part.isascii() and part.isdigit() for part in parts):
        raise ConfigurationError(f'checkpoint_period is "HH:MM:SS", not {period!r}')
    hours, minutes, seconds = map(int, parts)
    total = hours * 3600 + minutes * 60 + seconds
    if total == 0:
        raise ConfigurationError("checkpoint_period must be longer than nothing")
    return total


class CheckpointTimer:
    """Calls a function after every period until it is closed; what the function raises is logged.

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
                    "the periodic checkpoint failed: what it was to write is kept for the next"
                )

    def close(self) -> None:
        """Ends it; returns when no call is under way."""
        self._end.set()
        self._thread.join()
