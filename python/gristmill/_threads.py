"""Check for threads besides a process's first: a process that has others must not fork.

A fork copies one thread. What the others held at that moment, such as a lock of a C library or half a data structure,
stays as it was in the child, which then hangs or crashes. Threads that Python does not know count too, so the kernel is
asked.
"""

from __future__ import annotations

import os
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

#: Seconds for which the kernel may still list a thread that was joined.
_END_PATIENCE = 0.1


def are_running() -> bool:
    """Returns whether there are threads besides the first that do not end by themselves at once."""
    patience_ends = time.monotonic() + _END_PATIENCE
    while _count() > 1:
        if time.monotonic() > patience_ends:
            return True
        time.sleep(0.001)
    return False


def import_all(names: Iterable[str]) -> str | None:
    """Imports modules. Returns the name of the first module whose import increased the number of threads, if any."""
    from importlib import import_module

    culprit = None
    before = _count()
    for name in names:
        import_module(name)
        after = _count()
        if culprit is None and after > before:
            culprit = name
        before = after
    return culprit


def _count() -> int:
    return len(os.listdir("/proc/self/task"))
