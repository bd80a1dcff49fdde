"""A relay between agents and their client that a test can cut or pause."""

from __future__ import annotations

import contextlib
import math
import selectors
import socket
import threading

from gristmill._nodes.local import LocalNodes
from gristmill._nodes.placement import port_of


class Relay:
    """A relay that passes bytes between its connections and ``target`` until it is cut."""

    def __init__(self, target: int, port: int = 0) -> None:
        self._target = ("127.0.0.1", target)
        self._listener = socket.create_server(("127.0.0.1", port))
        self.port = self._listener.getsockname()[1]
        self._lock = threading.Lock()
        self._pairs: list[tuple[socket.socket, socket.socket]] = []
        self._is_open = True
        #: The connection that nothing passes, if one is held.
        self._held: tuple[socket.socket, socket.socket] | None = None
        #: True while nothing passes any connection.
        self._holds_all = False
        #: Bytes that the relay still lets through.
        self._left = math.inf
        self._may_flow = threading.Event()
        self._may_flow.set()
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        while True:
            try:
                ours, _ = self._listener.accept()
            except OSError:
                return
            with self._lock:
                if not self._is_open:
                    ours.close()
                    continue
                pair = (ours, socket.create_connection(self._target))
                self._pairs.append(pair)
            threading.Thread(target=self._serve, args=pair, daemon=True).start()

    def cut(self, for_good: bool = False) -> None:
        """Ends every connection at once and drops the bytes in transit. With ``for_good`` the relay refuses new
        connections too.
        """
        with self._lock:
            self._is_open = not for_good
            pairs, self._pairs = self._pairs, []
        for pair in pairs:
            for end in pair:
                with contextlib.suppress(OSError):
                    end.shutdown(socket.SHUT_RDWR)

    def mend(self) -> None:
        """Accepts connections again."""
        self._is_open = True

    def hold_after(self, count: int) -> None:
        """Lets about this many bytes through, and then none until ``go_on``."""
        self._may_flow.clear()
        with self._lock:
            self._left = count

    def hold(self, choice: float | None = None) -> None:
        """Lets nothing through until ``go_on``: on all connections, or on one that a part of their number chooses."""
        self._may_flow.clear()
        with self._lock:
            if choice is None:
                self._holds_all = True
            elif self._pairs:
                self._held = self._pairs[int(choice * len(self._pairs))]

    def go_on(self) -> None:
        """Lets bytes through again."""
        with self._lock:
            self._holds_all, self._held, self._left = False, None, math.inf
        self._may_flow.set()

    def _serve(self, one: socket.socket, other: socket.socket) -> None:
        """Passes bytes on until the connection ends."""
        try:
            self._pass_on(one, other)
        finally:
            with self._lock, contextlib.suppress(ValueError):
                self._pairs.remove((one, other))

    def _is_held_for(self, count: int, pair: tuple[socket.socket, socket.socket]) -> bool:
        """Counts bytes that have come; returns whether they must wait."""
        with self._lock:
            self._left -= count
            return self._holds_all or self._left < 0 or self._held == pair

    def _pass_on(self, one: socket.socket, other: socket.socket) -> None:
        with selectors.DefaultSelector() as selector, one, other:
            selector.register(one, selectors.EVENT_READ, other)
            selector.register(other, selectors.EVENT_READ, one)
            while True:
                for key, _ in selector.select():
                    source: socket.socket = key.fileobj  # type: ignore[assignment]
                    try:
                        data = source.recv(1 << 16)
                        if not data:
                            return
                        if self._is_held_for(len(data), (one, other)):
                            self._may_flow.wait()
                        key.data.sendall(data)
                    except OSError:
                        return

    def close(self) -> None:
        """Ends all connections and accepts no more."""
        self.go_on()
        self._listener.close()
        self.cut()


class RelayedNodes(LocalNodes):
    """Agents on this machine that reach their client through a relay."""

    relay: Relay

    def start(self, address: str | None, key: str) -> None:
        self.relay = Relay(port_of(address))
        super().start(f"127.0.0.1:{self.relay.port}", key)

    def end(self) -> None:
        super().end()
        self.relay.close()
