"""The ways in which a task fails: what happens in its worker.

The kinds are those of TaPS (Pauloski et al., 2024, sections III-E and IV-G). There a node is killed by a signal to
every process of the machine, and memory runs out for everybody: here signals stay behind the fence of the run, and a
process bounds what it takes itself.
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

from gristmill.bench.apart import MEMORY, Fence, NotApart

#: What is made of one task.
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
#: Those that send signals to other processes than the task's own.
HARMFUL = frozenset[FailureKind]({"manager-killed", "node-killed"})
#: Those after which a worker is gone.
LOSSES = frozenset[FailureKind]({"manager-killed", "node-killed", "worker-killed"})
#: Files that a task opens at most before it finds that there are no more, besides those that its process has.
_FILES_MAX = 256
#: Bytes of a piece of what a task fills memory with.
_PIECE_SIZE = 16 << 20
#: What is locked by a task that kills a node: in memory that is the run's own.
_NODE = f"{MEMORY}/node-killed"
#: Seconds that a task takes when its manager is gone: long enough for an engine to notice.
_NOTICE_S = 1.0


class InjectedFailure(RuntimeError):
    """What a task raises that is to fail without any other reason."""


@dataclass(frozen=True)
class Scene:
    """Where a task fails, and how far it may go."""

    #: The process of the application.
    program: int
    #: Whether that does nothing else: then it may die where it is its own worker.
    may_die: bool
    #: Bytes that a task may have when it fills memory.
    memory_size: int
    #: The fence of the run; without it nothing is killed but the worker itself.
    fence: Fence | None

    def end_worker(self) -> NoReturn:
        """Kills this process, which is the worker of the task."""
        if os.getpid() == self.program and not self.may_die:
            raise NotApart("the worker is a program that has other things to do")
        os.kill(os.getpid(), signal.SIGKILL)
        raise AssertionError("a process has outlived SIGKILL")

    def stay_inside(self) -> None:
        """Raises ``NotApart`` where a signal could reach others than processes of the run."""
        if self.fence is None:
            raise NotApart("this run has no namespaces of its own")
        self.fence.check()

    def send(self, process: int, number: int) -> None:
        """Sends a signal to another process of the run, if it is still there; after SIGKILL, waits for its end."""
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
    """Does to task ``number`` what is to be done: most raise, or never return."""
    _WAYS[kind](number, scene)


def _raise(number: int, _scene: Scene) -> None:
    raise InjectedFailure(f"task {number} was made to fail")


def _import(_number: int, _scene: Scene) -> None:
    importlib.import_module("gristmill_has_no_such_module")


def _divide(number: int, _scene: Scene) -> None:
    print(number / 0)


def _never_end(_number: int, _scene: Scene) -> None:
    # Python's own code, so that an engine that can interrupt that has the chance to.
    while True:
        time.sleep(0.01)


def _end_worker(_number: int, scene: Scene) -> None:
    scene.end_worker()


def _kill_manager(number: int, scene: Scene) -> None:
    if os.getpid() == scene.program:
        # No process stands between the worker and its end.
        scene.end_worker()
    manager = os.getppid()
    if manager <= 1:
        raise NotApart(f"the worker of task {number} has no manager in this run")
    scene.send(manager, signal.SIGKILL)
    time.sleep(_NOTICE_S)


def _kill_node(_number: int, scene: Scene) -> None:
    """Ends all of the run at once but its program, which is elsewhere where there are nodes.

    All are frozen before the first one is killed: what an engine starts when it sees that is its next node.
    """
    scene.stay_inside()
    # Two tasks that froze each other would stay so.
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
    """The processes that have not ended."""
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
                # Not zeros: those would cost nothing.
                filled.append(b"\1" * _PIECE_SIZE)
        finally:
            filled.clear()


def _open_files(_number: int, _scene: Scene) -> None:
    last = max(map(int, os.listdir("/proc/self/fd")))
    with _lowered(resource.RLIMIT_NOFILE, last + _FILES_MAX), ExitStack() as opened:
        while True:
            opened.enter_context(open(os.devnull, "rb"))


#: Held while a limit is lowered: another thread that did so meanwhile would take that for what it is to restore.
_lowering = Lock()


@contextmanager
def _lowered(limit: int, most: int) -> Iterator[None]:
    """Bounds what this process may have: nobody else runs out of it, and not for longer than this."""
    with _lowering:
        soft, hard = resource.getrlimit(limit)
        bound = most if soft == resource.RLIM_INFINITY else min(soft, most)
        resource.setrlimit(limit, (bound, hard))
        try:
            yield
        finally:
            resource.setrlimit(limit, (soft, hard))


_WAYS: dict[FailureKind, Callable[[int, Scene], None]] = {
    # The task that it depends on raises.
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
