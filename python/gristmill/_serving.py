"""The thread of a program that answers ``gristmill top``, over a socket in a folder of this user.

The thread starts with the first executor and ends with the last one. It makes its socket a moment later, so the first
result is not delayed, and a program that ends sooner leaves nothing to remove.
"""

from __future__ import annotations

import contextlib
import os

from gristmill import _green_threads
from gristmill._weak import WeakBag

TYPE_CHECKING = False
if TYPE_CHECKING:
    from _socket import socket

    from gristmill._executor import Executor

#: The thread waits in calls of the system, which would stop all greenlets.
_threads = _green_threads.of_system()
_allocate_lock, _start_new_thread = _threads.allocate_lock, _threads.start_new_thread

#: Seconds from the first executor until the program answers.
_DELAY_S = 0.2


class _Server:
    """One thread and its socket. Its methods are safe in signal handlers: they take no lock that the thread holds."""

    def __init__(self) -> None:
        self._is_over = False
        #: Lock that is held until the end, so that the thread can wait for it.
        self._running = _allocate_lock()
        self._running.acquire()
        #: The listener and its path, while there is one. The caller that takes them out closes the listener.
        self._opened: list[tuple[socket, str]] = []

    def run(self) -> None:
        """Answers until the end. A program that cannot make the socket works as usual and gives no answers."""
        if self._running.acquire(timeout=_DELAY_S):
            return
        with contextlib.suppress(OSError, ImportError):
            from gristmill._top import place

            listener, path = place.listen()
            self._opened.append((listener, path))
            if self._is_over:
                self._close()
            while not self._is_over:
                _answer(listener._accept()[0])  # type: ignore[attr-defined]
        self._close()

    def end(self) -> None:
        """Removes the socket and ends the thread. A second call does nothing."""
        if not self._is_over:
            self._is_over = True
            self._running.release()
            self._close()

    def forget(self) -> None:
        """Closes a forked child's copy of the socket, which belongs to the parent."""
        self._is_over = True
        while self._opened:
            self._opened.pop()[0].close()

    def _close(self) -> None:
        while self._opened:
            listener, path = self._opened.pop()
            with contextlib.suppress(OSError):
                os.unlink(path)
            with contextlib.suppress(OSError):
                listener.shutdown(2)  # both ways, which ends accept()
            listener.close()


def _answer(connection: int) -> None:
    """Answers one client, or closes the connection if the process is out of descriptors and can load no module."""
    try:
        from gristmill._top import status
    except Exception:
        os.close(connection)
    else:
        status.answer(connection)


#: The server of this process, if an executor has started.
_servers: list[_Server] = []
#: Executors that have started and are not completely shut down.
_executors: WeakBag[Executor] = WeakBag()


def begin(executor: Executor) -> None:
    """Shows an executor to ``gristmill top`` from now on."""
    _executors.add(executor)
    _serve()


def _serve() -> None:
    if not _servers:
        server = _Server()
        _servers.append(server)
        try:
            # Not a thread of ``threading``, which the end of the interpreter would wait for.
            _start_new_thread(server.run, ())
        except RuntimeError:  # a process out of threads or memory: the executor needs no server
            _servers.remove(server)


def leave(executor: Executor) -> None:
    """Forgets an executor that is shut down. With the last executor the thread ends and its socket is removed."""
    _executors.discard(executor)
    if not _executors:
        end()
        if _executors:  # another one has started meanwhile
            _serve()


def end() -> None:
    """Ends the thread, if it runs, and removes its socket."""
    while _servers:
        _servers.pop().end()


def executors() -> list[Executor]:
    """Returns the executors that have something to report, the oldest first."""
    there = [one for one in _executors if not one._is_shut_down or one.stats().outstanding]
    return sorted(there, key=lambda one: one._number)


def _forget() -> None:
    _executors.clear()
    while _servers:
        _servers.pop().forget()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget)
