"""Addresses as texts, ``HOST:PORT``: their forms, and errors that name the accepted ones.

A host is a name, an IPv4 address, or an IPv6 address, which has brackets where a port follows. An address that is valid
on one link only has a scope, the name of an interface of the machine that uses it: ``fe80::1%eth0``.
"""

from __future__ import annotations

import argparse
import re
import socket

from gristmill import _options

PORT_MAX = 65535
#: The accepted forms of an address with a port.
_FORMS = "HOST:PORT, for example n1:7700, 10.0.0.1:7700 or [fd00::1]:7700"
#: The accepted forms of a host without a port.
_HOST_FORMS = "a host without a port, for example n1, 10.0.0.1 or fd00::1"
#: Digits and dots, which the resolver would take for an IPv4 address with parts left out.
_DIGITS = re.compile(r"[0-9.]+")
#: The characters that no name of a host has.
_NO_NAME = re.compile(r"[\s\[\]/@%:\0]")


def split(text: str, port_min: int = 1) -> tuple[str, int]:
    """Returns the host of ``HOST:PORT``, without brackets, and the port.

    Raises ``ValueError`` for another form. Its message continues a sentence that begins with the text.
    """
    written, _, digits = text.rpartition(":")
    if _is_ipv6(text) or _is_ipv6(written):
        raise ValueError(f"is not {_FORMS}: an IPv6 address needs brackets before the port")
    host = written[1:-1] if written.startswith("[") and written.endswith("]") else written
    is_host = _is_ipv6(host) if host != written else _is_name(host) or _is_ipv4(host)
    is_port = digits.isascii() and digits.isdigit() and port_min <= int(digits[:6]) <= PORT_MAX
    if not is_host or not is_port:
        raise ValueError(f"is not {_FORMS}")
    return host, int(digits)


def host_of(text: str) -> str:
    """Returns a host that is given without a port, an IPv6 address with or without brackets; removes the brackets.

    Raises ``ValueError`` for another form. Its message continues a sentence that begins with the text.
    """
    host = text[1:-1] if text.startswith("[") and text.endswith("]") else text
    if not (_is_ipv6(host) or (host == text and (_is_name(host) or _is_ipv4(host)))):
        raise ValueError(f"is not {_HOST_FORMS}")
    return host


def joined(host: str, port: int) -> str:
    """Returns a host, without brackets, and a port as one text."""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def is_numeric(text: str) -> bool:
    """Returns whether a text is a numeric address with a port, as the engine writes it for a peer without a name."""
    try:
        host, _ = split(text)
    except ValueError:
        return False
    return _is_ipv4(host) or _is_ipv6(host)


def checked(name: str, text: str) -> str:
    """Returns an address with a port. Raises ``ValueError`` for another form."""
    try:
        split(text)
    except ValueError as error:
        raise ValueError(f"{name}: {_options.shown(text)} {error}") from None
    return text


def argument(text: str) -> str:
    """Returns an address of a command line to connect to. Raises ``ArgumentTypeError`` for another form."""
    return _argument(text, 1)


def listening_argument(text: str) -> str:
    """Returns an address of a command line to listen at, where port 0 is any free one.

    Raises ``ArgumentTypeError`` for another form.
    """
    return _argument(text, 0)


def _argument(text: str, port_min: int) -> str:
    try:
        split(text, port_min)
    except ValueError as error:
        raise argparse.ArgumentTypeError(f"{_options.shown(text)} {error}") from None
    return text


def _is_ipv4(host: str) -> bool:
    return _is_of(socket.AF_INET, host)


def _is_ipv6(host: str) -> bool:
    address, has_scope, scope = host.partition("%")
    if has_scope and (not scope or _NO_NAME.search(scope)):
        return False
    return _is_of(socket.AF_INET6, address)


def _is_of(family: int, host: str) -> bool:
    try:
        socket.inet_pton(family, host)
    except (OSError, ValueError):
        return False
    return True


def _is_name(host: str) -> bool:
    return bool(host) and not _NO_NAME.search(host) and not _DIGITS.fullmatch(host)
