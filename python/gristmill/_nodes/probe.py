"""Search for the client addresses that can be reached from this host."""

from __future__ import annotations

import contextlib
import errno
import selectors
import socket
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence


#: The time limit of one round of tries, seconds: much longer than a round trip, so that one packet may be lost.
_ROUND_S = 3.0
#: The pause between two rounds, and the limit of its doubling, seconds.
_PAUSE_S = (0.1, 2.0)
#: The time for which one address is tried before the next is tried too, seconds: most networks answer much sooner.
_HEAD_START_S = 0.2


def find_reachable(addresses: Sequence[str], patience_s: float | None) -> str | None:
    """Returns the first of the addresses, as ``host:port``, that accepts a connection; ``None`` after ``patience_s``.

    The client sorts its addresses by likelihood, so that one that answers soon makes tries of the others unnecessary.
    """
    give_up_at = None if patience_s is None else time.monotonic() + patience_s
    pause_s = _PAUSE_S[0]
    while True:
        with contextlib.ExitStack() as stack:
            found = _one_round(addresses, stack)
        if found is not None:
            return found
        if give_up_at is not None and time.monotonic() + pause_s >= give_up_at:
            return None
        time.sleep(pause_s)
        pause_s = min(2 * pause_s, _PAUSE_S[1])


def _one_round(addresses: Sequence[str], stack: contextlib.ExitStack) -> str | None:
    """Connects to one address after the other, each a little later, and stops at the first that answers."""
    selector = stack.enter_context(selectors.DefaultSelector())
    waiting = list(addresses)
    next_at, end_at = time.monotonic(), time.monotonic() + _ROUND_S
    while waiting or selector.get_map():
        now = time.monotonic()
        if now >= end_at:
            return None
        if waiting and (now >= next_at or not selector.get_map()):
            next_at = now + _HEAD_START_S
            address = waiting.pop(0)
            trial = _begin(address)
            if trial is not None:
                selector.register(stack.enter_context(trial), selectors.EVENT_WRITE, address)
            continue
        for key, _ in selector.select((next_at if waiting else end_at) - now):
            selector.unregister(key.fileobj)
            if isinstance(key.fileobj, socket.socket) and _is_connected(key.fileobj):
                return str(key.data)
    return None


def _begin(address: str) -> socket.socket | None:
    """Starts to connect to an address. Returns ``None`` if that fails at once."""
    host, _, port = address.rpartition(":")
    try:
        family, kind, protocol, _, target = socket.getaddrinfo(
            host.strip("[]"), int(port), type=socket.SOCK_STREAM
        )[0]
        trial = socket.socket(family, kind, protocol)
    except (OSError, ValueError):
        return None
    trial.setblocking(False)
    if trial.connect_ex(target) not in (0, errno.EINPROGRESS):
        trial.close()
        return None
    return trial


def _is_connected(trial: socket.socket) -> bool:
    return trial.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR) == 0
