"""Carrier of packets between two interfaces that delays each and drops some: ``relay.py ONE OTHER SECONDS LOSS``.

It prints a line when it is ready. Not every kernel has netem, which does the same.
"""

from __future__ import annotations

import collections
import contextlib
import random
import select
import socket
import sys
import time

_ALL_PROTOCOLS = 0x0003
_SOL_PACKET, _VNET_HEADER, _IGNORE_OUTGOING = 263, 15, 23
_FRAME_MAX = 1 << 17


def tap(interface: str) -> socket.socket:
    """Opens a socket that receives what comes in at the interface and sends what goes out."""
    end = socket.socket(socket.AF_PACKET, socket.SOCK_RAW | socket.SOCK_NONBLOCK)
    # The header tells the other end which segmentation and checksums the kernel has left undone.
    end.setsockopt(_SOL_PACKET, _VNET_HEADER, 1)
    end.setsockopt(_SOL_PACKET, _IGNORE_OUTGOING, 1)
    end.bind((interface, _ALL_PROTOCOLS))
    return end


def carry(one: socket.socket, other: socket.socket, delay_s: float, loss: float) -> None:
    """Carries packets for ever. Runs that send the same packets drop the same ones."""
    drawn = random.Random(2026)
    # Both directions wait equally long, so packets leave in the order in which they came.
    held: collections.deque[tuple[float, socket.socket, bytes]] = collections.deque()
    across = {one: other, other: one}
    while True:
        wait_s = max(0.0, held[0][0] - time.monotonic()) if held else None
        for end in select.select([one, other], [], [], wait_s)[0]:
            with contextlib.suppress(OSError):
                while True:
                    frame = end.recv(_FRAME_MAX)
                    if drawn.random() >= loss:
                        held.append((time.monotonic() + delay_s, across[end], frame))
        while held and held[0][0] <= time.monotonic():
            _, end, frame = held.popleft()
            # An interface that is down takes nothing. A full interface drops packets, as a switch does.
            with contextlib.suppress(OSError):
                end.send(frame)


if __name__ == "__main__":
    ends = tap(sys.argv[1]), tap(sys.argv[2])
    print("ready", flush=True)
    carry(*ends, float(sys.argv[3]), float(sys.argv[4]))
