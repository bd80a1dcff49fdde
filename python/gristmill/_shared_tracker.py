"""The resource tracker of ``multiprocessing``, which a worker shares with its program.

The tracker is a process. When a program ends, it removes the shared memory and the semaphores that the program has
left. Processes that ``multiprocessing`` itself starts share it too. A worker with a tracker of its own would, when the
worker ends, lose blocks that the program still uses.
"""

from __future__ import annotations

import os
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

MODULE = "multiprocessing.resource_tracker"
#: The module with the function that starts trackers, those of loky too.
STARTER = "multiprocessing.util"
#: The program that sets a variable for another one.
_ENV = b"/usr/bin/env"
_MAIN = b"resource_tracker import main"
#: The command line of a tracker. The number is that of its end of the pipe on which it is told of resources.
_COMMAND = rb"from multiprocessing\.resource_tracker import main; ?main\((\d+)\)"


def start() -> None:
    """Starts the tracker of this program if the program has loaded its module, so that workers can share it."""
    tracker = sys.modules.get(MODULE)
    if tracker is not None:
        tracker.ensure_running()


def share(module: Any, program: int) -> None:
    """Makes this worker's tracker that of the program, once it is needed. If that has none, this worker starts one."""
    tracker = module._resource_tracker

    def found(method: Any) -> Any:
        """Makes a method that looks for the program's tracker first."""

        def call(*args: Any) -> Any:
            if tracker._fd is None:
                tracker._fd = _pipe_of(program)
            return method(*args)

        return call

    # Later versions of Python do not run the tracker by the first method where they tell it of a resource.
    tracker.ensure_running = module.ensure_running = found(tracker.ensure_running)
    tracker._send = found(tracker._send)


def keep(util: Any) -> None:
    """Lets the trackers that this worker starts, also those of other libraries, outlive the worker.

    A tracker ends by itself once all processes that told it of resources have ended. Killed with its worker, it would
    leave what it tracks.
    """
    spawn = util.spawnv_passfds

    def spawnv_passfds(path: Any, args: Any, passfds: Any) -> int:
        if os.path.exists(_ENV) and any(_MAIN in os.fsencode(one) for one in args):
            path, args = _ENV, [b"env", b"GRISTMILL_KEEP=1", os.fsencode(path), *args[1:]]
        process: int = spawn(path, args, passfds)
        return process

    util.spawnv_passfds = spawnv_passfds


def _pipe_of(program: int) -> int | None:
    """Opens the pipe to the tracker of a program; ``None`` if there is no tracker, or if it just ends."""
    import re

    for process in _children(program):
        try:
            with open(f"/proc/{process}/cmdline", "rb") as file:
                found = re.search(_COMMAND, file.read())
            if found is not None:
                end = int(found[1])
                return os.open(f"/proc/{process}/fd/{end}", os.O_WRONLY | os.O_CLOEXEC)
        except OSError:  # it has ended
            continue
    return None


def _children(process: int) -> Iterator[int]:
    try:
        threads = os.listdir(f"/proc/{process}/task")
    except OSError:
        return
    for thread in threads:
        try:
            with open(f"/proc/{process}/task/{thread}/children") as file:
                children = file.read().split()
        except OSError:  # the thread has ended
            continue
        yield from map(int, children)
