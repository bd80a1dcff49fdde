"""Bounded execution of a command that leaves none of its processes behind.

``python -m gristmill._descent SECONDS LOG PREFIX COMMAND...`` is an intermediate process for a program that has other
processes below it. The command's temporary files are in a folder with that prefix, which is removed with it; without a
prefix they are in the usual folder. For files in memory the command always has a folder, whose path is in
``MEMORY_FOLDER``: nothing else gives their memory back.
"""

import ctypes
import os
import select
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from time import monotonic, sleep

from gristmill import _starting

#: Seconds that helpers have to end by themselves, and that trackers then have once all others have ended.
GRACE_S = 2.0
#: Text in the commands of multiprocessing's and joblib's trackers. Only trackers remove their semaphores from /dev/shm.
#: They do so once all processes that were started with them have ended.
_TRACKER = b"resource_tracker"
#: From <linux/prctl.h>.
PR_SET_PDEATHSIG = 1
PR_SET_CHILD_SUBREAPER = 36
#: The variable with the folder for a command's files in memory, and that folder's parent.
MEMORY_FOLDER = "GRISTMILL_MEMORY_FOLDER"
_MEMORY = Path("/dev/shm")
#: Exit status of a command that did not end in time, as of ``timeout``.
TIMED_OUT = 124


def adopt_orphans() -> None:
    """Makes this process the parent of the processes that its children leave behind."""
    _prctl(PR_SET_CHILD_SUBREAPER, 1)


def die_with_parent() -> None:
    """Makes this process end when its parent ends, by a signal that it can handle."""

    def end(_signal: int, _frame: object) -> None:
        # Only once: a second signal would interrupt the code that ends all others.
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        sys.exit(128 + signal.SIGTERM)

    signal.signal(signal.SIGTERM, end)
    end_with_parent(signal.SIGTERM)


def end_with_parent(number: signal.Signals) -> None:
    """Makes the kernel send this process a signal when its parent ends, whatever program this process becomes."""
    _prctl(PR_SET_PDEATHSIG, number)


def _prctl(option: int, value: int) -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(option, value, 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), f"prctl({option})")


def descendants() -> list[int]:
    """Returns the process ids of all descendants of this process."""
    children: dict[int, list[int]] = {}
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        try:
            stat = (entry / "stat").read_text(errors="replace")
        except OSError:
            continue
        # The name in parentheses may hold any characters: the parent is the second field after it.
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
    """Reaps the children that have ended."""
    try:
        while os.waitpid(-1, os.WNOHANG) != (0, 0):
            pass
    except ChildProcessError:
        return


def end_all() -> None:
    """Waits for all descendants to end and reaps them. Kills those that outlive their grace time, trackers last."""
    begun = monotonic()
    reap()
    while remaining := descendants():
        graces = (monotonic() - begun) / GRACE_S
        for process in remaining:
            if graces > 2 or (graces > 1 and not _is_tracker(process)):
                with suppress(ProcessLookupError):
                    os.kill(process, signal.SIGKILL)
        sleep(0.02)
        reap()


def _is_tracker(process: int) -> bool:
    try:
        return _TRACKER in Path(f"/proc/{process}/cmdline").read_bytes()
    except OSError:
        return False


def ended(pid: int, timeout_s: float | None) -> bool:
    """Sleeps until a child has ended, and returns whether it ended in time.

    Does not poll repeatedly, which would disturb what it measures.
    """
    watch = os.pidfd_open(pid)
    try:
        poller = select.poll()
        poller.register(watch, select.POLLIN)
        return bool(poller.poll(None if timeout_s is None else timeout_s * 1000))
    finally:
        os.close(watch)


def run_bounded(
    command: list[str], timeout_s: float | None, log: Path, environment: dict[str, str]
) -> int | None:
    """Runs a command with its output in a file.

    Returns the exit status, or ``None`` if the command did not end in time. Ends all descendants of this process, so
    all of them must belong to the command.
    """
    with log.open("wb") as sink:
        process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=sink,
            stderr=subprocess.STDOUT,
            env=environment,
        )
        try:
            in_time = ended(process.pid, timeout_s)
        finally:
            if process.poll() is None:
                process.kill()
            status = process.wait()
            end_all()
    return status if in_time else None


def bounded_command(*words: str) -> list[str]:
    """Returns the command line of an intermediate process: the words are seconds, log, prefix and the command."""
    return _starting.command("gristmill._descent", *words, has_flags=False)


def run_below(words: list[str], environment: dict[str, str]) -> int:
    """Runs this module as an intermediate process with these words and returns its exit status.

    If an exception interrupts the caller meanwhile, the exception goes on when all these processes have ended.
    """
    between = subprocess.Popen(
        bounded_command(*words), env={**environment, **_starting.variables(environment)}
    )
    try:
        return between.wait()
    except BaseException:
        # Not by SIGKILL: the process has to end its own descendants.
        between.terminate()
        between.wait()
        raise


def last_line(log: Path) -> str:
    """Returns the last line of a command's output."""
    lines = log.read_text(errors="replace").strip().splitlines() if log.exists() else []
    return lines[-1] if lines else "no output"


@contextmanager
def _own_folders(prefix: str) -> Iterator[dict[str, str]]:
    """Yields the variables that name the folders for a command's files. The end of the block removes the folders."""
    with ExitStack() as stack:
        variables: dict[str, str] = {}
        if prefix:
            variables["TMPDIR"] = stack.enter_context(_folder(prefix, None))
        if _MEMORY.is_dir():
            variables[MEMORY_FOLDER] = stack.enter_context(_folder("gristmill-", _MEMORY))
        yield variables


def _folder(prefix: str, parent: Path | None) -> TemporaryDirectory[str]:
    return TemporaryDirectory(prefix=prefix, dir=parent, ignore_cleanup_errors=True)


def main(words: list[str] | None = None) -> int:
    """Runs a command and returns its exit status, or ``TIMED_OUT``."""
    seconds, log, prefix, *command = sys.argv[1:] if words is None else words
    die_with_parent()
    adopt_orphans()
    # A terminal interrupts all of these processes, and the command responds.
    signal.signal(signal.SIGINT, lambda _signal, _frame: None)
    timeout_s = float(seconds) if float(seconds) > 0 else None
    with _own_folders(prefix) as variables:
        status = run_bounded(command, timeout_s, Path(log), os.environ | variables)
    if status is None:
        return TIMED_OUT
    return status if status >= 0 else 128 - status


if __name__ == "__main__":
    sys.exit(main())
