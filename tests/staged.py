"""Futures whose ends a test controls: their tasks ask the test over a socket."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable
from concurrent.futures import Future
from pathlib import Path
from typing import Any

import calls

#: Time limit of a test's wait for an expected event, seconds.
WATCHDOG_S = 60


class Stage:
    """A server at which tasks that call ``calls.play(path, name)`` wait for the word that ends them."""

    def __init__(self, folder: Path) -> None:
        self.path = str(folder / "stage")
        self._server = socket.socket(socket.AF_UNIX)
        self._server.bind(self.path)
        self._server.listen(64)
        self._connections: dict[str, socket.socket] = {}
        self._told = threading.Condition()
        self._thread = threading.Thread(target=self._accept, daemon=True)
        self._thread.start()

    def _accept(self) -> None:
        while True:
            try:
                connection, _ = self._server.accept()
            except OSError:
                return
            name = connection.recv(64).decode()
            with self._told:
                self._connections[name] = connection
                self._told.notify_all()

    def end(self, name: str, word: str) -> None:
        """Lets the task of that name return it (``value``) or raise it (``error``), once it has begun."""
        with self._told:
            assert self._told.wait_for(lambda: name in self._connections, WATCHDOG_S), name
            connection = self._connections.pop(name)
        with connection:
            connection.sendall(word.encode())

    def close(self) -> None:
        """Accepts no more tasks."""
        self._server.shutdown(socket.SHUT_RDWR)
        self._server.close()
        self._thread.join()


class Player:
    """One future of a scripted kind, with the means to make it final.

    :param submit: returns the future of a call.
    :param is_cancelled: whether the future will be cancelled before its task begins.
    """

    def __init__(
        self, stage: Stage, name: str, submit: Callable[..., Future[Any]], is_cancelled: bool
    ) -> None:
        self._stage, self._name = stage, name
        self.future = (
            submit(calls.same, submit(calls.play, stage.path, name))
            if is_cancelled
            else submit(calls.play, stage.path, name)
        )
        self._is_cancelled = is_cancelled
        self._is_over = False

    def end(self, how: str) -> None:
        """Makes the future final: by a ``value``, an ``error``, or a cancellation (``cancel``)."""
        self._is_over = how != "cancel"
        if how == "cancel":
            assert self.future.cancel()
        else:
            self._stage.end(self._name, how)

    def leave(self) -> None:
        """Lets a running task end."""
        if not self._is_over:
            self._stage.end(self._name, "value")


class Canceller:
    """A future of the standard library that is cancelled before its task begins."""

    def __init__(self) -> None:
        self.future: Future[Any] = Future()

    def end(self, how: str) -> None:
        """Cancels the future, and notifies its waiters as the thread of a pool does."""
        assert how == "cancel"
        assert self.future.cancel()
        self.future.set_running_or_notify_cancel()

    def leave(self) -> None:
        """Ends a future that was not cancelled."""
        if not self.future.done():
            self.future.set_result(None)
