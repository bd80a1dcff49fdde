"""Tasks whose first attempts fail. They are not in a test's module, because a worker imports the module of what it
calls, and a test's module imports pytest.
"""

from __future__ import annotations

import os
import signal
from pathlib import Path
from typing import Any

import calls


def fail_first(path: str, times: int, inputs: Any = ()) -> int:
    return calls.fail_first(path, times)


def fail_first_limited(path: str, times: int, walltime: float = 30) -> int:
    return calls.fail_first(path, times)


def die_first(path: str, times: int, inputs: Any = ()) -> int:
    return calls.die_first(path, times)


def fail_and_die(path: str, inputs: Any = ()) -> int:
    """Fails, then kills its worker, and then returns the number of attempts."""
    calls.append(path, "run")
    attempts = len(Path(path).read_text().splitlines())
    if attempts == 1:
        raise ValueError("failed")
    if attempts == 2:
        os.kill(os.getpid(), signal.SIGKILL)
    return attempts
