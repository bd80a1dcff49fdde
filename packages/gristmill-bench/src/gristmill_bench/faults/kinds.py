"""The kinds of failure of a task: what happens in its worker.

The kinds are those of TaPS (Pauloski et al., 2024, sections III-E and IV-G). There, killing a node sends a signal to
every process of the machine, and exhausted memory affects all processes. Here, signals stay behind the fence of the
run, and a process limits its own memory.
"""

from __future__ import annotations

import fcntl
import importlib
import os
import resource
import select
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from threading import Lock
from typing import Literal, NoReturn, get_args

from gristmill_bench.apart import MEMORY, Fence, NotApart

#: A kind of failure of one task.
FailureKind = Literal[
    "dependency",
    "failure",
    "import",
    "manager-killed",
    "memory",
    "node-killed",
    "timeout",
    "ulimit",
    "worker-killed",
    "zero-division",
]
FAILURE_KINDS: tuple[FailureKind, ...] = get_args(FailureKind)
#: Kinds that send signals to processes other than the task's own.
HARMFUL = frozenset[FailureKind]({"manager-killed", "node-killed"})
#: Kinds after which a worker is gone.
LOSSES = frozenset[FailureKind]({"manager-killed", "node-killed", "worker-killed"})
#: Files that a task may open, besides those of its process, before the limit refuses more.
_FILES_MAX = 256
#: Bytes of one block with which a task fills memory.
_PIECE_SIZE = 16 << 20
#: The file that a task locks before it kills a node, in the memory of the run.
_NODE = f"{MEMORY}/node-killed"
#: Seconds that a task takes after it has killed its manager: long enough for an engine to notice.
_NOTICE_S = 1.0


class InjectedFailure(RuntimeError):
    """The exception of a task that fails for no other reason."""


@dataclass(frozen=True)
class Scene:
    """The circumstances in which a task fails, and the limits of the damage."""

    #: The process of the application.
    program: int
    #: True if the program does nothing else: then it may die if it is its own worker.
    may_die: bool
    #: Bytes that a task may have when it fills memory.
    memory_size: int
    #: The fence of the run; without it a task kills no process except its own worker.
    fence: Fence | None

    def end_worker(self) -> NoReturn:
        """Kills this process, which is the worker of the task."""
        if os.getpid() == self.program and not self.may_die:
            raise NotApart("the worker is a program that has other things to do")
        os.kill(os.getpid(), signal.SIGKILL)
        raise AssertionError("a process has outlived SIGKILL")

    def stay_inside(self) -> None:
        """Raises ``NotApart`` if a signal could reach processes outside the run."""
        if self.fence is None:
            raise NotApart("this run has no namespaces of its own")
        self.fence.check()

    def send(self, process: int, number: int) -> None:
        """Sends a signal to another process of the run, if it still exists; after SIGKILL, waits for its end."""
        self.stay_inside()
        with suppress(ProcessLookupError):
            watch = os.pidfd_open(process)
            try:
                signal.pidfd_send_signal(watch, number)
                if number == signal.SIGKILL:
                    ended = select.poll()
                    ended.register(watch, select.POLLIN)
                    ended.poll()
            finally:
                os.close(watch)


def fail(kind: FailureKind, number: int, scene: Scene) -> None:
    """Makes task ``number`` fail: most kinds raise, or never return."""
    _WAYS[kind](number, scene)


def _raise(number: int, _scene: Scene) -> None:
    raise InjectedFailure(f"task {number} was made to fail")


def _import(_number: int, _scene: Scene) -> None:
    importlib.import_module("gristmill_has_no_such_module")


def _divide(number: int, _scene: Scene) -> None:
    print(number / 0)


def _never_end(_number: int, _scene: Scene) -> None:
    # The loop is Python code, so that an engine that can interrupt Python code has the chance to.
    while True:
        time.sleep(0.01)


def _end_worker(_number: int, scene: Scene) -> None:
    scene.end_worker()


def _kill_manager(number: int, scene: Scene) -> None:
    if os.getpid() == scene.program:
        # The worker is the program itself: no manager process exists.
        scene.end_worker()
    manager = os.getppid()
    if manager <= 1:
        raise NotApart(f"the worker of task {number} has no manager in this run")
    scene.send(manager, signal.SIGKILL)
    time.sleep(_NOTICE_S)


def _kill_node(_number: int, scene: Scene) -> None:
    """Kills all processes of the run at once except the program, which is on another machine if there are nodes.

    All processes are frozen before the first one is killed. Otherwise the engine could see the first death and start
    its next node while the others are being killed.
    """
    scene.stay_inside()
    # Without the lock, two tasks could freeze each other for ever.
    lock = os.open(_NODE, os.O_RDWR | os.O_CREAT, 0o644)
    fcntl.flock(lock, fcntl.LOCK_EX)
    kept = {1, os.getpid(), scene.program}
    frozen: set[int] = set()
    while others := set(_running()) - kept - frozen:
        for process in others:
            scene.send(process, signal.SIGSTOP)
        frozen |= others
    for process in frozen:
        scene.send(process, signal.SIGKILL)
    scene.end_worker()


def _running() -> list[int]:
    """Returns the processes that have not ended."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            with suppress(OSError):
                state = (entry / "stat").read_text(errors="replace").rpartition(")")[2].split()[0]
                if state not in "ZX":
                    found.append(int(entry.name))
    return found


def _fill_memory(_number: int, scene: Scene) -> None:
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    with _lowered(resource.RLIMIT_AS, pages * resource.getpagesize() + scene.memory_size):
        filled: list[bytes] = []
        try:
            while True:
                # The bytes are not zero, because pages of zeros cost nothing.
                filled.append(b"\1" * _PIECE_SIZE)
        finally:
            filled.clear()


def _open_files(_number: int, _scene: Scene) -> None:
    last = max(map(int, os.listdir("/proc/self/fd")))
    with _lowered(resource.RLIMIT_NOFILE, last + _FILES_MAX), ExitStack() as opened:
        while True:
            opened.enter_context(open(os.devnull, "rb"))


#: Held while a limit is lowered: a second thread would otherwise save the lowered limit as the one to restore.
_lowering = Lock()


@contextmanager
def _lowered(limit: int, most: int) -> Iterator[None]:
    """Lowers a limit of this process for the block; other processes are not affected."""
    with _lowering:
        soft, hard = resource.getrlimit(limit)
        bound = most if soft == resource.RLIM_INFINITY else min(soft, most)
        resource.setrlimit(limit, (bound, hard))
        try:
            yield
        finally:
            resource.setrlimit(limit, (soft, hard))


_WAYS: dict[FailureKind, Callable[[int, Scene], None]] = {
    # The parent task raises.
    "dependency": _raise,
    "failure": _raise,
    "import": _import,
    "manager-killed": _kill_manager,
    "memory": _fill_memory,
    "node-killed": _kill_node,
    "timeout": _never_end,
    "ulimit": _open_files,
    "worker-killed": _end_worker,
    "zero-division": _divide,
}
