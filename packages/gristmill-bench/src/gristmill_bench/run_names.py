"""Names of runs. What a run leaves outside of its folder begins with its name, so that its program can remove it.

The run itself may have been killed, and its process-id namespace may be gone.
"""

from __future__ import annotations

import os
from itertools import count

#: The prefix of everything that is named after a run.
PREFIX = "gristmill-bench"
#: The variable that tells a run its name.
VARIABLE = "GRISTMILL_BENCH_RUN"
_numbers = count()


def new() -> str:
    """Returns a name for a run that this process starts: its process-id namespace, its process id, a number."""
    return f"{namespace()}-{os.getpid()}-{next(_numbers)}"


def here() -> str:
    """Returns the prefix of names for this process' run; a process outside of any run gets a name of its own."""
    return begins(os.environ.get(VARIABLE) or f"{namespace()}-{os.getpid()}")


def begins(run: str) -> str:
    """Returns the prefix of names for a run."""
    return f"{PREFIX}-{run}-"


def namespace() -> int:
    """Returns the number of this process' process-id namespace."""
    return os.stat("/proc/self/ns/pid").st_ino
