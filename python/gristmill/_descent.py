"""Runs a command for a bounded time, and leaves none of the processes behind that it has started.

``python -m gristmill._descent SECONDS LOG PREFIX COMMAND...``: a process in between, for a program that has others
below it. Temporary files of the command are in a folder of that prefix, which goes with it; without one, where all are.
For files in memory it has a folder anyhow, whose path ``MEMORY_FOLDER`` has: nothing else gives their memory back.
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

#: Time that helpers have to go by themselves, and then trackers when all others have been ended.
GRACE_S = 2.0
#: In the commands of multiprocessing's trackers, and of joblib's. They remove semaphores from /dev/shm, which nobody
#: else does, and wait for that until all others have ended that were started with them.
_TRACKER = b"resource_tracker"
#: From <linux/prctl.h>.
PR_SET_PDEATHSIG = 1
PR_SET_CHILD_SUBREAPER = 36
#: The variable with the folder for a command's files in memory, and where that is made.
MEMORY_FOLDER = "GRISTMILL_MEMORY_FOLDER"
_MEMORY = Path("/dev/shm")
#: The exit status for what did not end in time, as of ``timeout``.
TIMED_OUT = 124


def adopt_orphans() -> None:
    """Makes this process the parent of whatever its children leave behind."""
    _prctl(PR_SET_CHILD_SUBREAPER, 1)


def die_with_parent() -> None:
    """Has this process end, by a signal that it can answer, when its parent does."""

    def end(_signal: int, _frame: object) -> None:
        # Once: whoever says so again would interrupt what ends all others.
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        sys.exit(128 + signal.SIGTERM)

    signal.signal(signal.SIGTERM, end)
    end_with_parent(signal.SIGTERM)


def end_with_parent(number: signal.Signals) -> None:
    """Has the kernel send this process a signal when its parent ends, whatever program it becomes until then."""
    _prctl(PR_SET_PDEATHSIG, number)


def _prctl(option: int, value: int) -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(option, value, 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), f"prctl({option})")


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
    """Ends and reaps everything below this process; by force what outlives its grace, trackers last."""
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
    """Sleeps until a child has ended, without a poll that would disturb what it measures."""
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
    """Runs a command with its output in a file; gives its exit status, or ``None`` if it did not end in time.

    Ends everything below this process, which has to be all its.
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


def run_below(words: list[str], environment: dict[str, str]) -> int:
    """Runs this module as a process in between, with those words; gives its exit status.

    A program that is interrupted meanwhile, in whatever way, goes on when all of that has ended.
    """
    command = [sys.executable, "-m", "gristmill._descent", *words]
    between = subprocess.Popen(command, env=environment)
    try:
        return between.wait()
    except BaseException:
        # Not by force: it has to end what is below it.
        between.terminate()
        between.wait()
        raise


def last_line(log: Path) -> str:
    """The last line of a command's output."""
    lines = log.read_text(errors="replace").strip().splitlines() if log.exists() else []
    return lines[-1] if lines else "no output"


@contextmanager
def _own_folders(prefix: str) -> Iterator[dict[str, str]]:
    """Variables of a command that name the folders for its files, which go with the block."""
    with ExitStack() as stack:
        variables: dict[str, str] = {}
        if prefix:
            variables["TMPDIR"] = stack.enter_context(_folder(prefix, None))
        if _MEMORY.is_dir():
            variables[MEMORY_FOLDER] = stack.enter_context(_folder("gristmill-", _MEMORY))
        yield variables


def _folder(prefix: str, parent: Path | None) -> TemporaryDirectory[str]:
    return TemporaryDirectory(prefix=prefix, dir=parent, ignore_cleanup_errors=True)


def main(words: list[str]) -> int:
    """Runs a command; gives its exit status, or that of ``timeout``."""
    seconds, log, prefix, *command = words
    die_with_parent()
    adopt_orphans()
    # A terminal interrupts all of them: the command answers.
    signal.signal(signal.SIGINT, lambda _signal, _frame: None)
    timeout_s = float(seconds) if float(seconds) > 0 else None
    with _own_folders(prefix) as variables:
        status = run_bounded(command, timeout_s, Path(log), os.environ | variables)
    if status is None:
        return TIMED_OUT
    return status if status >= 0 else 128 - status


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
