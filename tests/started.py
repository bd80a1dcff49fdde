"""Tasks that start programs and return or write their ids, for the tests of stopped tasks."""

from __future__ import annotations

import ctypes
import multiprocessing
import os
import subprocess
import sys
import time
from collections.abc import Callable
from typing import Any

import gristmill

from forks import note

#: Duration longer than any test, seconds.
_LONG = "600"


def _sleep(**options: Any) -> int:
    return subprocess.Popen(["sleep", _LONG], **options).pid


def by_shell() -> int:
    pid = subprocess.run(
        f"sleep {_LONG} >/dev/null 2>&1 & echo $!", shell=True, stdout=subprocess.PIPE, check=True
    )
    return int(pid.stdout)


def by_c_library() -> int:
    reader, writer = os.pipe()
    os.set_inheritable(writer, True)
    # A shell accepts file descriptors of one digit only.
    command = f"sleep {_LONG} >/dev/null 2>&1 & echo $! >/dev/fd/{writer}"
    ctypes.CDLL(None).system(command.encode())
    pid = int(os.read(reader, 20))
    os.close(reader)
    os.close(writer)
    return pid


def by_double_fork() -> int:
    """Starts a daemon: its parents are gone, it has a session of its own, and it has executed no program."""
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        os.setsid()
        if os.fork():
            os._exit(0)
        os.write(writer, str(os.getpid()).encode())
        os.close(writer)
        while True:
            time.sleep(1)
    os.waitpid(child, 0)
    return int(os.read(reader, 20))


def by_daemonized_program() -> int:
    return by_daemon_of(os.environ)


def by_daemon_of(environment: Any) -> int:
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        os.setsid()
        if os.fork():
            os._exit(0)
        os.write(writer, str(os.getpid()).encode())
        os.close(writer)
        os.execve("/bin/sleep", ["sleep", _LONG], environment)
    os.waitpid(child, 0)
    return int(os.read(reader, 20))


def by_multiprocessing() -> int:
    process = multiprocessing.get_context("fork").Process(target=time.sleep, args=(600,))
    process.start()
    _kept.append(process)
    return process.pid or 0


_kept: list[object] = []

WAYS: dict[str, Callable[[], int]] = {
    "program": _sleep,
    "session": lambda: _sleep(start_new_session=True),
    "copied environment": lambda: _sleep(env={**os.environ, "MORE": "1"}),
    "own environment": lambda: _sleep(env={"PATH": os.environ["PATH"]}),
    "posix_spawn": lambda: os.posix_spawn("/bin/sleep", ["sleep", _LONG], os.environ),
    "shell": by_shell,
    "C library": by_c_library,
    "double fork": by_double_fork,
    "daemon": by_daemonized_program,
    "multiprocessing": by_multiprocessing,
    "kept": lambda: _sleep(env={**os.environ, "GRISTMILL_KEEP": "1"}),
}


def start(way: str) -> int:
    """Starts a program that outlives the task."""
    return WAYS[way]()


def start_and_wait(path: str, way: str) -> None:
    """Starts a program and does something else until it is interrupted."""
    note(path, WAYS[way]())
    while True:
        time.sleep(0.01)


def start_and_ignore(path: str, way: str) -> str:
    """Does the same, catches the interrupt, and raises an error."""
    try:
        start_and_wait(path, way)
    except BaseException:
        raise ValueError("cleaned up") from None
    return ""


def start_and_return(path: str, way: str) -> str:
    """Does the same, catches the interrupt, and returns a value."""
    try:
        start_and_wait(path, way)
    except BaseException:
        return "interrupted"
    return ""


def submit_child_that_waits(path: str, way: str) -> str:
    """Submits a child that is stopped; a program that this task itself has started continues."""
    note(path + ".parent", _sleep())
    child = gristmill.current_executor().options(timeout=1.0).submit(start_and_wait, path, way)
    return type(child.exception()).__name__


def interpreter() -> str:
    return sys.executable
