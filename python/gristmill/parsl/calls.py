"""Steps that must not nest: each thread runs those it was given one after the other.

Completing a task completes those that wait for it, and so on: called directly, a long chain would be a deep recursion.
Here a step that is posted while its thread runs another waits until that one has returned.
"""

from __future__ import annotations

import threading
from collections import deque
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

_mine = threading.local()


def is_in_step() -> bool:
    """Whether this thread is in the middle of a step, a callback of a future for instance."""
    return getattr(_mine, "waiting", None) is not None


def post(step: Callable[..., None], *arguments: Any) -> None:
    """Runs ``step(*arguments)`` in this thread, after the steps that it is in the middle of."""
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
        # An interrupt ended a step: the others are not lost with it.
        while waiting:
            step, arguments = waiting.popleft()
            post(step, *arguments)
