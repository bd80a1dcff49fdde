"""Tasks whose first attempts fail. Not in a test's module: workers import what they call, and pytest with it."""

from __future__ import annotations

import os
import signal
from pathlib import Path
from typing import Any

import calls


def fail_first(path: str, times: int, inputs: Any = ()) -> int:
    return calls.fail_first(path, times)


def die_first(path: str, times: int, inputs: Any = ()) -> int:
    return calls.die_first(path, times)


def fail_and_die(path: str, inputs: Any = ()) -> int:
    """Fails, dies, and then gives the number of attempts."""
    calls.append(path, "run")
    attempts = len(Path(path).read_text().splitlines())
    if attempts == 1:
        raise ValueError("failed")
    if attempts == 2:
        os.kill(os.getpid(), signal.SIGKILL)
    return attempts
