"""Addresses of this machine's network interfaces, as the kernel lists them (rtnetlink)."""

from __future__ import annotations

import dataclasses
import errno
import os
import socket
import struct

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

#: ``nlmsghdr``: size, type, flags, sequence number, port.
_HEADER = struct.Struct("=IHHII")
#: ``ifaddrmsg``: family, prefix length, flags, scope, index of the interface.
_ENTRY = struct.Struct("=BBBBI")
#: ``rtattr``: size, type.
_ATTRIBUTE = struct.Struct("=HH")
#: Types of messages: an error, the end of a list, an address, the request for all addresses.
_ERROR, _DONE, _NEW_ADDRESS, _GET_ADDRESS = 2, 3, 20, 22
#: Flags of the request: it is one, and asks for all entries.
_REQUEST, _DUMP = 0x1, 0x300
#: Attributes of an address: itself or that of the other end of its link; itself; the name of an alias; its flags.
_ADDRESS, _LOCAL, _LABEL, _FLAGS = 1, 2, 3, 8
#: Flags of an address: IPv6 may replace it soon; another machine has it; it is not to be used any more; no check has
#: shown yet that no other machine has it.
_TEMPORARY, _DUPLICATE, _DEPRECATED, _TENTATIVE = 0x1, 0x8, 0x20, 0x40
#: Scopes from this on mean one link, or the machine itself.
_SCOPE_LINK, _SCOPE_HOST = 253, 254
#: The size of the largest answer of the kernel, bytes.
_ANSWER_MAX = 1 << 16
#: The longest wait for an answer, seconds: the kernel answers at once, but a sandbox may drop the request.
_ANSWER_S = 2.0


@dataclasses.dataclass(frozen=True)
class InterfaceAddress:
    """A usable address of a network interface."""

    #: The name of the interface.
    interface: str
    #: The name of the interface's alias that has the address, such as ``eth0:1``, otherwise that of the interface.
    label: str
    #: The numeric address, without a scope.
    host: str
    is_ipv6: bool
    #: True if only this machine reaches it.
    is_loopback: bool
    #: True for an IPv6 address that other machines reach only with the name of an interface of their own.
    is_of_link: bool
    #: True for an address that goes away sooner than others.
    is_fleeting: bool


def interface_addresses() -> list[InterfaceAddress]:
    """Returns the addresses of all interfaces, those of IPv4 first. Raises ``OSError`` if it cannot be had."""
    with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, socket.NETLINK_ROUTE) as kernel:
        kernel.settimeout(_ANSWER_S)
        request = _ENTRY.pack(socket.AF_UNSPEC, 0, 0, 0, 0)
        size = _HEADER.size + len(request)
        kernel.send(_HEADER.pack(size, _GET_ADDRESS, _REQUEST | _DUMP, 1, 0) + request)
        found = [one for one in map(_read, _entries(kernel)) if one is not None]
    return sorted(found, key=lambda one: one.is_ipv6)


def _entries(kernel: socket.socket) -> Iterator[bytes]:
    """Yields the bodies of the messages about addresses."""
    while True:
        answer = kernel.recv(_ANSWER_MAX)
        if not answer:
            raise _damage()
        while answer:
            size, kind = _head(answer)
            body, answer = answer[_HEADER.size : size], answer[_aligned(size) :]
            if kind == _DONE:
                return
            if kind == _ERROR:
                (number,) = struct.unpack_from("=i", body)
                raise OSError(-number, os.strerror(-number))
            if kind == _NEW_ADDRESS:
                yield body


def _head(answer: bytes) -> tuple[int, int]:
    """Returns the size and the type of the first message."""
    if len(answer) >= _HEADER.size:
        size, kind, *_ = _HEADER.unpack_from(answer)
        if _HEADER.size <= size <= len(answer):
            return size, kind
    raise _damage()


def _damage() -> OSError:
    return OSError(errno.EBADMSG, os.strerror(errno.EBADMSG))


def _read(body: bytes) -> InterfaceAddress | None:
    """Returns the address that an entry describes, or ``None`` if it cannot be used."""
    family, _, flags, scope, index = _ENTRY.unpack_from(body)
    attributes = _attributes(body[_ENTRY.size :])
    if _FLAGS in attributes:
        (flags,) = struct.unpack("=I", attributes[_FLAGS])
    # The other one is that of the peer where a link has two ends.
    packed = attributes.get(_LOCAL) or attributes.get(_ADDRESS)
    if packed is None or family not in (socket.AF_INET, socket.AF_INET6):
        return None
    if flags & (_DUPLICATE | _TENTATIVE):
        return None
    is_ipv6 = family == socket.AF_INET6
    try:
        interface = socket.if_indextoname(index)
    except OSError:  # it is gone
        return None
    label = attributes.get(_LABEL, b"").rstrip(b"\0").decode(errors="replace")
    return InterfaceAddress(
        interface,
        label or interface,
        socket.inet_ntop(family, packed),
        is_ipv6,
        is_loopback=scope == _SCOPE_HOST,
        is_of_link=is_ipv6 and scope == _SCOPE_LINK,
        is_fleeting=bool(flags & _DEPRECATED) or (is_ipv6 and bool(flags & _TEMPORARY)),
    )


def _attributes(data: bytes) -> dict[int, bytes]:
    found = {}
    while len(data) >= _ATTRIBUTE.size:
        size, kind = _ATTRIBUTE.unpack_from(data)
        if size < _ATTRIBUTE.size:
            break
        found[kind] = data[_ATTRIBUTE.size : size]
        data = data[_aligned(size) :]
    return found


def _aligned(size: int) -> int:
    """Returns the offset of what follows: messages and attributes begin at multiples of four bytes."""
    return (size + 3) & ~3
