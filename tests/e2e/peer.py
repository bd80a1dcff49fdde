"""One end of a connection: a program that tests run on nodes, ``python -I -S peer.py WHAT``."""

from __future__ import annotations

import hashlib
import socket
import sys
from collections.abc import Callable

#: The port that it listens on: each node is a machine of its own.
PORT = 7777


def echo() -> None:
    """Sends back what comes in, one connection after the other."""
    with _listen() as listener:
        while True:
            with listener.accept()[0] as connection:
                while data := connection.recv(1 << 16):
                    connection.sendall(data)


def sink() -> None:
    """Reads one connection to its end; prints the number of bytes and their digest."""
    digest, count = hashlib.sha256(), 0
    with _listen() as listener, listener.accept()[0] as connection:
        while data := connection.recv(1 << 20):
            digest.update(data)
            count += len(data)
    print(count, digest.hexdigest())


def ask(host: str) -> None:
    """Sends the name of this host to the host's echo, and prints the reply."""
    with socket.create_connection((host, PORT)) as connection:
        connection.sendall(socket.gethostname().encode())
        print(connection.recv(1 << 16).decode())


def _listen() -> socket.socket:
    listener = socket.create_server(("", PORT))
    print("listening", flush=True)
    return listener


if __name__ == "__main__":
    what: dict[str, Callable[..., None]] = {"echo": echo, "sink": sink, "ask": ask}
    what[sys.argv[1]](*sys.argv[2:])
