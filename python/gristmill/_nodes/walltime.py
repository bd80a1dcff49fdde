"""How long nodes can be used: what batch systems, providers and command lines say of it."""

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
#: ``days-hours:minutes:seconds``, of which something is left out.
_TEXT = re.compile(r"(?:([0-9]{1,6})-)?([0-9]{1,6}(?::[0-9]{1,6}){0,2})")
#: What the numbers mean, by how many there are: behind days, as Slurm has it, and as others do.
_BEHIND_DAYS = (_HOUR_S, _MINUTE_S, 1)
_BY_COUNT = {
    "slurm": {1: (_MINUTE_S,), 2: (_MINUTE_S, 1), 3: (_HOUR_S, _MINUTE_S, 1)},
    "lsf": {1: (_MINUTE_S,), 2: (_HOUR_S, _MINUTE_S), 3: (_HOUR_S, _MINUTE_S, 1)},
}
_OTHERS = {1: (1,), 2: (_MINUTE_S, 1), 3: (_HOUR_S, _MINUTE_S, 1)}
#: What Slurm takes for no limit.
_UNLIMITED = ("unlimited", "infinite")


def seconds(text: str) -> float:
    """A time of a command line. Raises ``ArgumentTypeError`` for what is none."""
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not (math.isfinite(value) and value >= 0):
        raise argparse.ArgumentTypeError(f"{text!r} is no number of seconds of at least 0")
    return value


def of_provider(provider: Any) -> float | None:
    """How long a block of a provider may last, seconds; ``None``: for ever, or nobody can tell, which is logged."""
    text = getattr(provider, "walltime", None)
    if text is None or str(text).strip().lower() in _UNLIMITED:
        return None
    match = _TEXT.fullmatch(str(text).strip())
    if match is None:
        import logging  # agents, which load this module, have no provider

        logging.getLogger("gristmill.nodes").warning(
            "the provider's walltime %r is no time such as 01:00:00 or 1-12: its nodes do not drain before it is over",
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
    return float(int(match[1] or 0) * _DAY_S + rest) or None  # 0 is no limit, too


def time_left(walltime_s: float | None) -> float | None:
    """How long this node can be used, seconds: a batch system that says when its job ends is believed.

    A time that is over is that of a job which this program has outlived.
    """
    told = os.environ.get("SLURM_JOB_END_TIME", "")
    left = int(told) - time.time() if told.isdigit() else 0.0
    if left <= 0:
        return walltime_s
    return left if walltime_s is None else min(walltime_s, left)
