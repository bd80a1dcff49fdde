"""A task that reports its host, and runs until it is released."""

import socket

#: The longest name of a host, bytes.
NAME_SIZE_MAX = 256


def stay(host: str, port: int, _: bytes = b"") -> None:
    """Sends its host's name to the listener at that address, and ends when the listener closes the connection.

    The last argument only adds bytes to the task.
    """
    with socket.create_connection((host, port)) as connection:
        connection.sendall(socket.gethostname().encode())
        connection.recv(1)


def arrived(arrivals: socket.socket) -> tuple[str, socket.socket]:
    """Waits until such a task runs. Returns its host's name, and the connection that releases it when closed."""
    connection, _ = arrivals.accept()
    return connection.recv(NAME_SIZE_MAX).decode(), connection
