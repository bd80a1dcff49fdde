"""Keeps the processes of a block together, and leaves none behind."""

import ctypes
import os
import select
import signal
import subprocess
from contextlib import suppress
from pathlib import Path
from time import monotonic, sleep

#: Time that a block's helpers have to go by themselves: multiprocessing's tracker then removes
#: the semaphores that a killed one would leave in /dev/shm.
GRACE_S = 2.0
#: From <linux/prctl.h>.
PR_SET_CHILD_SUBREAPER = 36


def adopt_orphans() -> None:
    """Makes this process the parent of whatever its children leave behind."""
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), "prctl(PR_SET_CHILD_SUBREAPER)")


def descendants() -> list[int]:
    """Lists every process below this one."""
    children: dict[int, list[int]] = {}
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        try:
            stat = (entry / "stat").read_text(errors="replace")
        except OSError:
            continue
        # The name in parentheses may hold anything: the parent is the second field after it.
        parent = int(stat.rpartition(")")[2].split()[1])
        children.setdefault(parent, []).append(int(entry.name))
    found: list[int] = []
    frontier = [os.getpid()]
    while frontier:
        below = children.get(frontier.pop(), [])
        found += below
        frontier += below
    return found


def reap() -> None:
    """Collects the children that have ended."""
    try:
        while os.waitpid(-1, os.WNOHANG) != (0, 0):
            pass
    except ChildProcessError:
        return


def end_all() -> None:
    """Ends and reaps everything below this process; by force what outlives its grace."""
    end = monotonic() + GRACE_S
    reap()
    while remaining := descendants():
        if monotonic() > end:
            for process in remaining:
                with suppress(ProcessLookupError):
                    os.kill(process, signal.SIGKILL)
        sleep(0.02)
        reap()


def ended(pid: int, timeout_s: float) -> bool:
    """Sleeps until a child has ended, without a poll that would disturb what it measures."""
    watch = os.pidfd_open(pid)
    try:
        poller = select.poll()
        poller.register(watch, select.POLLIN)
        return bool(poller.poll(timeout_s * 1000))
    finally:
        os.close(watch)


def run_bounded(command: list[str], timeout_s: float, folder: Path) -> str | None:
    """Runs a command with `folder` for its output and whatever it leaves in the temporary folder.

    Ends its whole descent; returns why it failed, or None.
    """
    log = folder / "log"
    with log.open("wb") as sink:
        process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=sink,
            stderr=subprocess.STDOUT,
            env={**os.environ, "TMPDIR": str(folder)},
        )
        try:
            in_time = ended(process.pid, timeout_s)
        finally:
            if process.poll() is None:
                process.kill()
            status = process.wait()
            end_all()
    if not in_time:
        return f"no result within {timeout_s:.0f} s"
    if status == 0:
        return None
    lines = log.read_text(errors="replace").strip().splitlines()
    return f"failed ({status}): {lines[-1] if lines else 'no output'}"
