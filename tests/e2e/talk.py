"""Connections to programs on nodes, and the kernel's information about them."""

from __future__ import annotations

import contextlib
import socket
import struct
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import peer
from cluster import Machine, Process

PEER = [sys.executable, "-I", "-S", str(Path(peer.__file__))]
#: TCP's state of a connection that neither end has closed.
_ESTABLISHED = 1


@contextlib.contextmanager
def listening(machine: Machine, what: str) -> Iterator[Process]:
    """Yields a program that listens on the machine."""
    with machine.start([*PEER, what], stdout=subprocess.PIPE) as process:
        assert process.stdout
        assert process.stdout.readline() == "listening\n"
        yield process


def connect(machine: Machine) -> socket.socket:
    """Returns a connection to the program that listens there."""
    return socket.create_connection((machine.name, peer.PORT))


def is_established(connection: socket.socket) -> bool:
    """Returns whether this end considers the connection established."""
    return connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 1)[0] == _ESTABLISHED


def unanswered(connection: socket.socket) -> int:
    """Returns how often the same bytes have been sent again without an answer."""
    return connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 3)[2]


def resent(connection: socket.socket) -> int:
    """Returns the number of packets that have been sent again."""
    information = connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 104)
    count: int = struct.unpack_from("I", information, 100)[0]
    return count


def is_silent(connection: socket.socket) -> bool:
    """Returns whether there is nothing to receive: no byte, no end, no error."""
    connection.setblocking(False)
    try:
        connection.recv(1, socket.MSG_PEEK)
    except BlockingIOError:
        return True
    else:
        return False
    finally:
        connection.setblocking(True)
