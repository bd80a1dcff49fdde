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
            if not self._is_open:
                ours.close()
                continue
            pair = (ours, socket.create_connection(self._target))
            with self._lock:
                self._pairs.append(pair)
            threading.Thread(target=self._pass_on, args=pair, daemon=True).start()

    def cut(self, for_good: bool = False) -> None:
        """Ends every connection at once and drops the bytes in transit. With ``for_good`` the relay refuses new
        connections too.
        """
        self._is_open = not for_good
        with self._lock:
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
        self._left = count

    def go_on(self) -> None:
        """Lets bytes through again."""
        self._left = math.inf
        self._may_flow.set()

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
                        self._left -= len(data)
                        if self._left < 0:
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
