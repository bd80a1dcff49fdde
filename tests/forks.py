"""Tasks that fork, for the tests of forked children. Most return how their child ended."""

from __future__ import annotations

import atexit
import contextlib
import ctypes
import os
import signal
import sys
import threading
import time
from collections.abc import Callable
from typing import Any

import gristmill

#: Number of the system call, by machine.
_CLONE = {"x86_64": 56, "aarch64": 220}


def clone() -> int:
    """Forks without the C library and Python, so that none of their fork handlers runs in the child."""
    libc = ctypes.PyDLL(None)
    return int(libc.syscall(_CLONE[os.uname().machine], int(signal.SIGCHLD), 0, 0, 0, 0))


def forkpty() -> int:
    child, terminal = os.forkpty()
    if child:
        # If the terminal is closed, the child gets a hang-up signal.
        _terminals.append(terminal)
    return child


_terminals: list[int] = []


FORKS: dict[str, Callable[[], int]] = {"fork": os.fork, "forkpty": forkpty, "clone": clone}


def end_of(child: int) -> int:
    """Waits for a child; returns its exit code."""
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def note(path: str, word: object) -> None:
    """Appends a line, whole even if other processes append at the same time."""
    file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    os.write(file, f"{word}\n".encode())
    os.close(file)


def split(fork: str, end: str) -> int | str:
    """Forks; the child leaves the task's function in its own way."""
    child = FORKS[fork]()
    if child:
        return end_of(child)
    if end == "raise":
        raise ValueError("raised in the child")
    if end == "exec":
        os.execv("/nonexistent/program", ["program"])
    if end == "exit":
        sys.exit(7)
    if end == "exit with a text":
        sys.exit("last words of the child")
    if end == "exit without a code":
        sys.exit()
    return "the child's"


def split_with_output_pending() -> int:
    """Forks while standard output and error have buffered text, which is written once."""
    atexit.register(note, "/nonexistent/folder/that/no/handler/runs", "")
    sys.stdout.write("<pending>")
    sys.stderr.write("<waiting>")
    child = os.fork()
    if child:
        code = end_of(child)
        atexit.unregister(note)
        print(flush=True)
        print(file=sys.stderr, flush=True)
        return code
    raise ValueError("raised in the child")


def split_in_a_thread(end: str) -> int:
    """Forks in a thread of the task; the child has only that thread, which ends."""
    codes = []

    def run() -> None:
        child = os.fork()
        if child:
            codes.append(end_of(child))
        elif end == "raise":
            raise ValueError("raised in the child")

    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    return codes[0]


def leave_a_thread(path: str) -> None:
    """Leaves a thread behind that forks and uses the engine once the gate is open, and notes the outcome."""

    def run() -> None:
        with open(path + ".leave", "rb", buffering=0) as gate:
            gate.read(1)
        child = os.fork()
        if child == 0:
            return
        try:
            gristmill.current_executor()
        except RuntimeError as error:
            with open(path + ".entered", "wb", buffering=0) as file:
                file.write(f"{end_of(child)} {error}".encode())

    threading.Thread(target=run, daemon=True).start()


class ForksWhenPickled:
    """A result that forks while it is pickled. Its size gives it a block of its own in the arena."""

    def __init__(self, path: str, size: int, *, raises: bool = False) -> None:
        self.rest = (path, size, raises)

    def __reduce__(self) -> Any:
        path, size, raises = self.rest
        child = os.fork()
        if child:
            note(path, end_of(child))
        elif raises:
            raise ValueError("raised in the child")
        return (bytes, (b"x" * size,))


class ForksWhenLoaded:
    """An argument that forks while it is unpickled."""

    def __init__(self, path: str) -> None:
        self.path = path

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        child = os.fork()
        if child:
            note(self.path, end_of(child))


class ForksWhenGone:
    """An object that forks in its finalizer."""

    def __init__(self, path: str) -> None:
        self.path = path
        self.maker = os.getpid()

    def __del__(self) -> None:
        if os.getpid() == self.maker:
            child = os.fork()
            if child:
                note(self.path, end_of(child))

    def __reduce__(self) -> Any:
        return (str, ("pickled",))


def make_pickled(path: str, size: int, *, raises: bool = False) -> ForksWhenPickled:
    return ForksWhenPickled(path, size, raises=raises)


def make_gone(path: str) -> ForksWhenGone:
    return ForksWhenGone(path)


def drop_gone(path: str) -> str:
    gone = ForksWhenGone(path)
    del gone
    return "dropped"


class ErrorThatForks(Exception):
    """An exception that forks while it is pickled."""

    def __init__(self, path: str) -> None:
        super().__init__(path)
        self.path = path

    def __reduce__(self) -> Any:
        child = os.fork()
        if child:
            note(self.path, end_of(child))
        return (ValueError, (self.path,))


def raise_forking(path: str) -> None:
    raise ErrorThatForks(path)


def run_and_note(path: str, argument: object) -> str:
    note(path, f"ran {type(argument).__name__}")
    return "ran"


def same(value: int) -> int:
    return value


def use_parent(what: str) -> tuple[int, int]:
    """Lets a forked child use the task's executor; returns the child's exit code, which tells the error there, and the
    result that the task gets.
    """
    executor = gristmill.current_executor()
    future = executor.submit(same, 1)
    child = os.fork()
    if child:
        return end_of(child), future.result()
    code = 3
    with contextlib.suppress(gristmill.ForkedProcessError):
        if what == "submit":
            executor.submit(same, 2)
        elif what == "result":
            future.result()
        elif what == "cancel":
            future.cancel()
        elif what == "done":
            future.done()
        elif what == "current":
            gristmill.current_executor()
        code = 4
    os._exit(0 if code == 3 else code)


class ForksInAnArgument:
    """An argument that forks while a task encodes it for a task of its own."""

    def __reduce__(self) -> Any:
        child = os.fork()
        if child:
            _codes.append(end_of(child))
        return (str, ("argument",))


_codes: list[int] = []


def submit_forking() -> tuple[int, str]:
    _codes.clear()
    executor = gristmill.current_executor()
    value = executor.submit(str, ForksInAnArgument()).result()
    return _codes[0], value


def wait_forking(path: str, fork_in: str) -> int:
    """Forks while the task waits for a task of its own: in a signal handler, or in a callback."""
    executor = gristmill.current_executor()

    def fork(*_: object) -> None:
        child = os.fork()
        if child:
            note(path, "forked")
            note(path, end_of(child))

    if fork_in == "signal":
        signal.signal(signal.SIGUSR1, fork)
        try:
            return executor.submit(signal_parent, os.getpid(), path).result()
        finally:
            signal.signal(signal.SIGUSR1, signal.SIG_DFL)
    future = executor.submit(same, 5)
    future.add_done_callback(fork)
    future.add_done_callback(lambda _: note(path, "second callback"))
    return future.result()


def signal_parent(parent: int, path: str) -> int:
    """Makes the parent task run a signal handler, on another worker or below its wait; returns once the handler has
    written its note.
    """
    os.kill(parent, signal.SIGUSR1)
    while not os.path.exists(path):
        time.sleep(0.001)
    return 5


def initialize_forking(path: str, end: str) -> None:
    child = os.fork()
    if child:
        note(path, end_of(child))
    elif end == "raise":
        raise ValueError("raised in the child")


def set_up_forking(path: str) -> Any:
    child = os.fork()
    if child:
        note(path, f"before {end_of(child)}")
    yield {"path": path}
    child = os.fork()
    if child:
        note(path, f"after {end_of(child)}")
    else:
        raise ValueError("raised in the child")


def use_multiprocessing(what: str) -> list[int]:
    """Starts children with ``multiprocessing``, which end by themselves; returns the squares that they compute."""
    import multiprocessing
    from concurrent.futures import ProcessPoolExecutor

    context = multiprocessing.get_context("fork")
    if what == "Process":
        receiver, sender = context.Pipe(duplex=False)
        process = context.Process(target=_send_squares, args=(sender,))
        process.start()
        squares = receiver.recv()
        process.join()
        return list(squares) if process.exitcode == 0 else []
    if what == "Pool":
        with context.Pool(2) as pool:
            return pool.map(_square, range(3))
    if what == "Manager":
        with context.Manager() as manager:
            return list(manager.list([_square(number) for number in range(3)]))
    with ProcessPoolExecutor(2, mp_context=context) as pool:
        return list(pool.map(_square, range(3)))


def _square(number: int) -> int:
    return number * number


def _send_squares(sender: Any) -> None:
    sender.send([_square(number) for number in range(3)])


def spawn_program() -> int:
    """Starts a program by ``posix_spawn``: that is no fork, and has no effect on the worker."""
    return end_of(os.posix_spawn("/bin/true", ["true"], os.environ))


def split_some(path: str, number: int) -> int:
    """Forks a child in every tenth of many short calls; the child leaves the call."""
    if number % 10 == 3:
        child = os.fork()
        if not child:
            return -1
        end_of(child)
    note(path, number)
    return number
