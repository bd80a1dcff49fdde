"""Tasks that leave work to the end of their worker, for the tests of worker ends."""

from __future__ import annotations

import atexit
import os
import sys
import threading
import weakref
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NoReturn

from forks import note


def by_atexit(path: str) -> None:
    atexit.register(note, path, "atexit")


def by_thread(path: str) -> None:
    """Starts a non-daemon thread that writes a note when the main thread ends."""
    begun = threading.Event()

    def run() -> None:
        begun.wait()
        note(path, "thread")

    threading.Thread(target=run).start()
    threading._register_atexit(begun.set)  # type: ignore[attr-defined]


def by_pool(path: str) -> None:
    """Leaves a thread pool with work: the waiting call still runs at the end."""
    pool = ThreadPoolExecutor(1)
    _kept.append(pool)
    begun = threading.Event()
    pool.submit(begun.wait)
    pool.submit(note, path, "pool")
    threading._register_atexit(begun.set)  # type: ignore[attr-defined]


def by_finalize(path: str) -> None:
    one = _Object()
    _kept.append(one)
    weakref.finalize(one, note, path, "finalize")


def by_multiprocessing(path: str) -> None:
    from multiprocessing import util

    one = _Object()
    _kept.append(one)
    util.Finalize(one, note, args=(path, "multiprocessing"), exitpriority=10)


def by_logging(path: str) -> None:
    """Adds a log handler that keeps records until it is flushed."""
    import logging.handlers

    memory = logging.handlers.MemoryHandler(100, target=_Noting(path))
    logger = logging.getLogger("endings")
    logger.addHandler(memory)
    logger.warning("logging")


def _noting(path: str) -> Any:
    import logging

    class Noting(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            note(path, record.getMessage())

    return Noting()


class _Object:
    pass


_Noting = _noting
_kept: list[object] = []

WAYS: dict[str, Callable[[str], None]] = {
    "atexit": by_atexit,
    "thread": by_thread,
    "pool": by_pool,
    "finalize": by_finalize,
    "multiprocessing": by_multiprocessing,
    "logging": by_logging,
}


def leave(path: str, way: str) -> None:
    WAYS[way](path)


def note_process(path: str, process: int) -> None:
    """Notes whether the handler runs in the process that registered it."""
    note(path, "own" if os.getpid() == process else "foreign")


def set_up(path: str) -> Iterator[dict[str, Any]]:
    atexit.register(note, path, "handler")
    yield {}
    note(path, "rest")


def register_fork() -> None:
    def fork() -> None:
        child = os.fork()
        if child:
            os.waitpid(child, 0)

    atexit.register(fork)


def register_error() -> None:
    def fail() -> NoReturn:
        raise ValueError("raised in a handler")

    atexit.register(fail)


def leave_for_ever() -> None:
    """Starts a thread that never ends."""

    def wait_for_ever() -> None:
        threading.Event().wait()

    threading.Thread(target=wait_for_ever).start()


def settings() -> dict[str, Any]:
    """Returns the interpreter's settings that tests change."""
    import decimal
    import faulthandler
    import gc
    import socket

    stack = threading.stack_size()
    threading.stack_size(stack)  # the read above has reset it to the default
    return {
        "recursion": sys.getrecursionlimit(),
        "digits": sys.get_int_max_str_digits(),
        "switch": sys.getswitchinterval(),
        "stack": stack,
        "gc": (gc.isenabled(), gc.get_threshold()),
        "bytecode": sys.dont_write_bytecode,
        "cache": sys.pycache_prefix,
        "tracebacks": getattr(sys, "tracebacklimit", None),
        "decimal": (decimal.getcontext().prec, decimal.getcontext().traps[decimal.Inexact]),
        "timeout": socket.getdefaulttimeout(),
        "faulthandler": faulthandler.is_enabled(),
    }


def leave_thread_at(gate: str, path: str) -> int:
    """Leaves a non-daemon thread at a gate. The thread writes a note once the gate is open."""

    def run() -> None:
        with open(gate + ".leave", "rb", buffering=0) as leave:
            leave.read(1)
        note(path, "thread")

    threading.Thread(target=run).start()
    return os.getpid()
