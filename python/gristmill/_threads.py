"""Whether this process has threads besides its first: a process that has must not fork.

A fork copies one thread. What the others held at that moment, a lock of a C library or half a data structure, stays as
it was in the child, which then hangs or crashes. Threads that Python does not know count too: the kernel is asked.
"""

from __future__ import annotations

import importlib
import os
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

#: A thread that was joined may be known to the kernel a little longer, seconds.
_END_PATIENCE = 0.1


def are_running() -> bool:
    """Whether there are threads besides the first that do not end by themselves at once."""
    patience_ends = time.monotonic() + _END_PATIENCE
    while _count() > 1:
        if time.monotonic() > patience_ends:
            return True
        time.sleep(0.001)
    return False


def import_all(names: Iterable[str]) -> str | None:
    """Imports modules; gives the name of the first after whose import there were more threads than before."""
    culprit = None
    before = _count()
    for name in names:
        importlib.import_module(name)
        after = _count()
        if culprit is None and after > before:
            culprit = name
        before = after
    return culprit


def _count() -> int:
    return len(os.listdir("/proc/self/task"))
