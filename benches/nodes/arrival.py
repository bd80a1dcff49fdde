"""A task that says where it runs, and stays there until told."""

import socket

#: Longest name of a host.
NAME_SIZE_MAX = 256


def stay(host: str, port: int, _: bytes = b"") -> None:
    """Tells its host's name to whoever listens there; ends when that end is closed.

    The last argument is there to be sent.
    """
    with socket.create_connection((host, port)) as connection:
        connection.sendall(socket.gethostname().encode())
        connection.recv(1)


def arrived(arrivals: socket.socket) -> tuple[str, socket.socket]:
    """Waits until such a task runs; returns its host's name, and what to close."""
    connection, _ = arrivals.accept()
    return connection.recv(NAME_SIZE_MAX).decode(), connection
