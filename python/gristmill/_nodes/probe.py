"""Search for the client addresses that can be reached from this host."""

from __future__ import annotations

import contextlib
import errno
import math
import os
import selectors
import socket
import time

from gristmill._nodes import endpoint

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from typing import Any


#: The time limit of one round of tries, seconds: much longer than a round trip, so that one packet may be lost. The
#: time that the name service takes does not count.
_ROUND_S = 3.0
#: The pause between two rounds, and the limit of its doubling, seconds.
_PAUSE_S = (0.1, 2.0)
#: The time for which one address is tried before the next is tried too, seconds: most networks answer much sooner.
_HEAD_START_S = 0.2


def find_reachable(addresses: Sequence[str], patience_s: float | None) -> str:
    """Returns the first of the addresses, as ``host:port``, that accepts a connection: the numeric one of a name.

    Raises ``ConnectionError`` after ``patience_s``, which says how each of them has failed. A name may lead to several
    addresses. The client sorts its addresses by likelihood, so that one that answers soon makes tries of the others
    unnecessary.
    """
    give_up_at = None if patience_s is None else time.monotonic() + patience_s
    pause_s = _PAUSE_S[0]
    while True:
        with contextlib.ExitStack() as stack:
            search = _Round(addresses, stack)
            found = search.run()
        if found is not None:
            return found
        if give_up_at is not None and time.monotonic() + pause_s >= give_up_at:
            raise ConnectionError("; ".join(f"{at}: {why}" for at, why in search.failures.items()))
        time.sleep(pause_s)
        pause_s = min(2 * pause_s, _PAUSE_S[1])


class _Round:
    """One round of tries: connects to one address after the other, each a little later.

    :param addresses: the addresses, as ``host:port``.
    :param stack: closes the sockets.
    """

    def __init__(self, addresses: Sequence[str], stack: contextlib.ExitStack) -> None:
        self._targets = self._look_up(addresses)
        self._stack = stack
        self._selector = stack.enter_context(selectors.DefaultSelector())
        #: The reason for each address at which none has answered.
        self.failures: dict[str, str] = {}

    def _look_up(self, addresses: Sequence[str]) -> Iterator[tuple[str, Any]]:
        """Yields the numeric addresses, each with the arguments of its socket and the address of ``connect``."""
        for address in addresses:
            try:
                found = socket.getaddrinfo(*endpoint.split(address), type=socket.SOCK_STREAM)
            except (OSError, UnicodeError) as error:
                self.failures[address] = getattr(error, "strerror", None) or str(error)
                continue
            for family, kind, protocol, _, target in found:
                yield _in_words(address, target), ((family, kind, protocol), target)

    def run(self) -> str | None:
        """Returns the first address that accepts a connection, or ``None`` if none does in time."""
        next_at, end_at = 0.0, math.inf
        is_last = False
        while not is_last or self._selector.get_map():
            now = time.monotonic()
            if not is_last and (now >= next_at or not self._selector.get_map()):
                is_last = not self._begin_next()
                now = time.monotonic()
                next_at, end_at = now + _HEAD_START_S, now + _ROUND_S
                continue
            if now >= end_at:
                self._note_silent()
                return None
            for key, _ in self._selector.select((end_at if is_last else next_at) - now):
                if self._has_answered(key):
                    return str(key.data)
        return None

    def _begin_next(self) -> bool:
        """Starts to connect to the next address. Returns whether there was one."""
        address, terms = next(self._targets, ("", None))
        if terms is None:
            return False
        kind, target = terms
        try:
            trial = self._stack.enter_context(socket.socket(*kind))
        except OSError as error:  # the kernel has no IPv6, for example
            self.failures[address] = error.strerror or str(error)
            return True
        trial.setblocking(False)
        number = trial.connect_ex(target)
        if number in (0, errno.EINPROGRESS):
            self._selector.register(trial, selectors.EVENT_WRITE, address)
        else:
            self.failures[address] = os.strerror(number)
        return True

    def _has_answered(self, key: selectors.SelectorKey) -> bool:
        """Returns whether an attempt has succeeded, and notes the reason if it has failed."""
        self._selector.unregister(key.fileobj)
        assert isinstance(key.fileobj, socket.socket), "only sockets are registered"
        number = key.fileobj.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
        if number:
            self.failures[key.data] = os.strerror(number)
        return not number

    def _note_silent(self) -> None:
        for key in self._selector.get_map().values():
            self.failures[key.data] = "no answer"


def _in_words(address: str, target: Any) -> str:
    """Returns a socket's address as ``host:port``, and a numeric one as it was given."""
    if endpoint.is_numeric(address):
        return address
    host, _ = socket.getnameinfo(target, socket.NI_NUMERICHOST | socket.NI_NUMERICSERV)
    return endpoint.joined(host, target[1])
