"""The time for which nodes can be used, from batch systems, providers and command lines."""

from __future__ import annotations

import argparse
import math
import os
import re
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

_DAY_S, _HOUR_S, _MINUTE_S = 86_400, 3600, 60
#: A time as ``days-hours:minutes:seconds``; parts may be missing.
_TEXT = re.compile(r"(?:([0-9]{1,6})-)?([0-9]{1,6}(?::[0-9]{1,6}){0,2})")
#: The units of the numbers, by how many there are: after days as in Slurm, then without days, by system.
_BEHIND_DAYS = (_HOUR_S, _MINUTE_S, 1)
_BY_COUNT = {
    "slurm": {1: (_MINUTE_S,), 2: (_MINUTE_S, 1), 3: (_HOUR_S, _MINUTE_S, 1)},
    "lsf": {1: (_MINUTE_S,), 2: (_HOUR_S, _MINUTE_S), 3: (_HOUR_S, _MINUTE_S, 1)},
}
_OTHERS = {1: (1,), 2: (_MINUTE_S, 1), 3: (_HOUR_S, _MINUTE_S, 1)}
#: Slurm's words for no limit.
_UNLIMITED = ("unlimited", "infinite")


def seconds(text: str) -> float:
    """Parses a time of a command line, seconds. Raises ``ArgumentTypeError`` if it is none."""
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not (math.isfinite(value) and value >= 0):
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of seconds of at least 0")
    return value


def of_provider(provider: Any) -> float | None:
    """Returns the seconds that a block of a provider may last, or ``None`` without a limit.

    An unreadable limit also gives ``None``, and is logged.
    """
    text = getattr(provider, "walltime", None)
    if text is None or str(text).strip().lower() in _UNLIMITED:
        return None
    match = _TEXT.fullmatch(str(text).strip())
    if match is None:
        import logging  # agents, which load this module, have no provider

        logging.getLogger("gristmill.nodes").warning(
            "the provider's walltime %r is not a time such as 01:00:00 or 1-12: its nodes will "
            "not drain before the job ends",
            text,
        )
        return None
    numbers = [int(part) for part in match[2].split(":")]
    if match[1] is not None:
        units = _BEHIND_DAYS[: len(numbers)]
    else:
        label = str(getattr(provider, "label", "")).lower()
        units = _BY_COUNT.get(label, _OTHERS)[len(numbers)]
    rest = sum(number * unit for number, unit in zip(numbers, units, strict=True))
    return float(int(match[1] or 0) * _DAY_S + rest) or None  # 0 means no limit, too


def time_left(walltime_s: float | None) -> float | None:
    """Returns the seconds for which this node can be used: the job's end in Slurm takes precedence if it is earlier.

    An end in the past belongs to a job that this program has outlived, and is ignored.
    """
    end_time = os.environ.get("SLURM_JOB_END_TIME", "")
    left = int(end_time) - time.time() if end_time.isdigit() else 0.0
    if left <= 0:
        return walltime_s
    return left if walltime_s is None else min(walltime_s, left)
