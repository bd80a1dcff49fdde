"""Names of runs: what a run leaves outside of its folder begins with its name, by which its program removes it.

The run itself may have been killed, and its namespace of processes be gone.
"""

from __future__ import annotations

import os
from itertools import count

#: What all that is called after runs begins with.
PREFIX = "gristmill-bench"
#: The variable that tells a run its name.
VARIABLE = "GRISTMILL_BENCH_RUN"
_numbers = count()


def new() -> str:
    """A name for a run that this process starts: its namespace of processes, its id, a number."""
    return f"{namespace()}-{os.getpid()}-{next(_numbers)}"


def here() -> str:
    """What a name of this process' run begins with; it has one of its own where nobody has started it as a run."""
    return begins(os.environ.get(VARIABLE) or f"{namespace()}-{os.getpid()}")


def begins(run: str) -> str:
    """What the names of a run's things begin with."""
    return f"{PREFIX}-{run}-"


def namespace() -> int:
    """The number of the namespace of processes that this one is in."""
    return os.stat("/proc/self/ns/pid").st_ino
