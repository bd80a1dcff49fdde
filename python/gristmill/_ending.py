"""The end of a worker: its non-daemon threads, ``atexit`` handlers and finalizers, in a bounded time."""

from __future__ import annotations

import atexit
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

#: Seconds for all of it: less than the time of a worker that is asked to leave.
_SECONDS = 5.0
#: Number of handlers that a process begins with.
_inherited = 0


def forget_inherited() -> None:
    """Leaves inherited exit handlers to the process that this one was forked from. Later handlers are this one's."""
    atexit._clear()
    util = sys.modules.get("multiprocessing.util")
    if util is not None:
        util._finalizer_registry.clear()
        util._run_after_forkers()
        atexit.register(util._exit_function)
    logging = sys.modules.get("logging")
    if logging is not None:
        atexit.register(logging.shutdown)
    weakref = sys.modules.get("weakref")
    if weakref is not None and weakref.finalize._registered_with_atexit:
        for one in list(weakref.finalize._registry):
            one.atexit = False
        atexit.register(weakref.finalize._exitfunc)
    global _inherited
    _inherited = atexit._ncallbacks()


def run() -> None:
    """Waits for non-daemon threads, then runs the exit handlers, as an interpreter's end does.

    When the time is over, prints the tracebacks of all threads and ends the process.
    """
    if not _is_needed():
        return
    import faulthandler

    file: Any = sys.__stderr__ or 2
    faulthandler.dump_traceback_later(_SECONDS, exit=True, file=file)
    threading = sys.modules.get("threading")
    if threading is not None:
        threading._shutdown()
    atexit._run_exitfuncs()
    faulthandler.cancel_dump_traceback_later()


def lasts() -> bool:
    """Returns whether the end may take long: the process has other threads, or handlers that it did not begin with."""
    threading = sys.modules.get("threading")
    has_threads = threading is not None and threading.active_count() > 1
    return has_threads or atexit._ncallbacks() > _inherited


def _is_needed() -> bool:
    threading = sys.modules.get("threading")
    return atexit._ncallbacks() > 0 or (threading is not None and threading.active_count() > 1)
