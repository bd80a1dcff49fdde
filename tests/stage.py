"""Helpers that hold tasks, run programs, and find processes. None of them sleeps."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from pathlib import Path

from gristmill import Executor

import calls


class Gate:
    """A gate that holds tasks that call ``calls.enter(gate.path)``: the test learns of each task's start and lets it
    continue.
    """

    def __init__(self, folder: Path) -> None:
        self.path = str(folder / "gate")
        self._ends = []
        for name in (".entered", ".leave"):
            os.mkfifo(self.path + name)
            # Each pipe is open for both directions, so that neither side waits for the other side's open.
            self._ends.append(os.open(self.path + name, os.O_RDWR))

    def wait_entered(self) -> int:
        """Waits until one more task is inside; returns its worker's process id."""
        return int.from_bytes(os.read(self._ends[0], 4), "little")

    def open(self, count: int = 1) -> None:
        """Lets ``count`` tasks leave."""
        os.write(self._ends[1], b"." * count)

    def close(self) -> None:
        """Lets all tasks leave, now and later."""
        self.open(4000)


def wait_until_received(executor: Executor) -> None:
    """Returns once nodes have confirmed all sent messages; at once where there are no nodes."""
    while nodes := executor.nodes():
        told = sum(node.waiting + node.running for node in nodes)
        if told >= executor.stats().in_flight:
            return
        time.sleep(0.001)


def wait_for_nodes(executor: Executor, count: int) -> None:
    """Waits until this many nodes are connected; the watchdog ends a wait that never succeeds."""
    while len([node for node in executor.nodes() if node.connected]) < count:
        executor.submit(calls.nothing).result()


class Script:
    """A runner of programs in processes of their own."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def start(self, text: str, *arguments: str, **options: object) -> subprocess.Popen[str]:
        """Starts ``text`` as a file's main program."""
        path = self._folder / "script.py"
        path.write_text(textwrap.dedent(text))
        # This path comes before the test's own paths: a program must import the same Gristmill.
        paths = [str(Path(__file__).parent), os.environ.get("PYTHONPATH", "")]
        path_variable = {"PYTHONPATH": os.pathsep.join(filter(None, paths))}
        environment = {**os.environ, **path_variable, **options.pop("env", {})}  # type: ignore[dict-item]
        started: subprocess.Popen[str] = subprocess.Popen(
            [sys.executable, str(path), *arguments],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            stdin=subprocess.PIPE,
            text=True,
            env=environment,
            preexec_fn=_default_signals,
            **options,  # type: ignore[call-overload]
        )
        return started

    def run(self, text: str, *arguments: str, **options: object) -> str:
        """Runs ``text``, which must succeed; returns its output."""
        with self.start(text, *arguments, **options) as process:
            printed, errors = process.communicate()
        assert process.returncode == 0, errors
        return printed


def _default_signals() -> None:
    """Sets the default signal actions of a program at a terminal; the tests may run under ``nohup`` or behind a shell's
    ``&``.
    """
    for number in signal.valid_signals() - {signal.SIGKILL, signal.SIGSTOP}:
        signal.signal(number, signal.SIG_DFL)


def _processes() -> dict[int, tuple[int, str]]:
    """Returns the parent and the state of each living process."""
    found = {}
    for entry in filter(str.isdigit, os.listdir("/proc")):
        try:
            fields = Path(f"/proc/{entry}/stat").read_text().rpartition(")")[2].split()
        except OSError:
            continue
        if fields[0] not in "ZX":
            found[int(entry)] = (int(fields[1]), fields[0])
    return found


def on_little_stack(function: Callable[[], None]) -> None:
    """Calls ``function`` in a thread with a stack of 512 KiB, where even a shallow recursion would end the process."""
    ended: Future[None] = Future()

    def run() -> None:
        try:
            function()
        except BaseException as error:
            ended.set_exception(error)
        else:
            ended.set_result(None)

    usual = threading.stack_size(512 << 10)
    thread = threading.Thread(target=run)
    thread.start()
    threading.stack_size(usual)
    thread.join()
    ended.result()


def lives(process: int) -> bool:
    """Returns whether the process runs."""
    return process in _processes()


def descent(root: int) -> list[int]:
    """Returns the processes below ``root``, of all sessions."""
    parents = _processes()
    found = [root]
    for process in found:
        found += [child for child, (parent, _) in parents.items() if parent == process]
    return found[1:]


def keepers() -> list[int]:
    """Returns the keepers of this process's executors."""
    children = [child for child, (parent, _) in _processes().items() if parent == os.getpid()]
    return [child for child in children if "keeper" in text_of(child, "cmdline")]


def zygotes() -> list[int]:
    """Returns the zygotes and the workers below this process: they run the same program."""
    running = [one for one in descent(os.getpid()) if "_zygote" in text_of(one, "cmdline")]
    return [one for one in running if not _stands_by(one)]


def zygote_beside(others: set[int]) -> int:
    """Waits until there is one zygote besides ``others``: until a stand-by has its name it looks like a worker."""
    while True:
        found = set(zygotes()) - others
        if len(found) == 1:
            return found.pop()
        time.sleep(0.001)


def stand_bys() -> list[int]:
    """Returns the stand-bys below this process."""
    return [one for one in descent(os.getpid()) if _stands_by(one)]


def next_stand_by(before: set[int]) -> int:
    """Waits until there is a stand-by that is not in ``before``; the watchdog ends a wait that never succeeds."""
    while True:
        found = set(stand_bys()) - before
        if found:
            return found.pop()
        time.sleep(0.001)


def _stands_by(process: int) -> bool:
    return text_of(process, "comm") == "gristmill-next\n"


def text_of(process: int, name: str) -> str:
    """Returns a file of a process below ``/proc``; it is empty once the process has ended."""
    try:
        return Path(f"/proc/{process}/{name}").read_text(errors="replace")
    except OSError:
        return ""


def family(mark: bytes) -> list[int]:
    """Returns the living processes whose environment contains ``mark``."""
    marked = []
    for process in _processes():
        if process != os.getpid() and mark.decode() in text_of(process, "environ"):
            marked.append(process)
    return marked
