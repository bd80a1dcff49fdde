"""Steps that must not nest: each thread runs its posted steps one after the other.

Completing a task completes the tasks that wait for it, and so on. Direct calls would make a long chain of tasks a deep
recursion. Instead, a step that is posted while its thread runs another step waits until that step has returned.
"""

from __future__ import annotations

import threading
from collections import deque
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

_mine = threading.local()


def is_in_step() -> bool:
    """Returns whether this thread is running a step, such as a callback of a future."""
    return getattr(_mine, "waiting", None) is not None


def post(step: Callable[..., None], *arguments: Any) -> None:
    """Runs ``step(*arguments)`` in this thread, after the step that this thread is running now."""
    waiting = getattr(_mine, "waiting", None)
    if waiting is not None:
        waiting.append((step, arguments))
        return
    waiting = _mine.waiting = deque()
    try:
        step(*arguments)
        while waiting:
            step, arguments = waiting.popleft()
            step(*arguments)
    finally:
        _mine.waiting = None
        # If an interrupt ended a step, the waiting steps still run.
        while waiting:
            step, arguments = waiting.popleft()
            post(step, *arguments)
