"""The bytes that encodings are made of. Every encoding marks its own end; a long one is replaced by its hash."""

from __future__ import annotations

from typing import Any

try:
    # Not through hashlib, which loads OpenSSL.
    from _blake2 import blake2b
except ImportError:
    from hashlib import blake2b

#: Longer encodings are hashed, in bytes: twice the size of the hash.
_PLAIN_SIZE_MAX = 64
_HASH_SIZE = 32
#: Copied for each key, which is faster than making a new one.
_EMPTY_KEY = blake2b(digest_size=16)


class UnkeyableValue(Exception):
    """A value that cannot be identified."""


def hashed(data: Any) -> bytes:
    """Returns the hash of bytes, or of an object with the buffer protocol."""
    digest: bytes = blake2b(data, digest_size=_HASH_SIZE).digest()
    return digest


def key_of(data: bytes) -> str:
    """Returns a shorter hash as text: 32 hexadecimal digits."""
    digest = _EMPTY_KEY.copy()
    digest.update(data)
    key: str = digest.hexdigest()
    return key


def framed(tag: bytes, body: bytes) -> bytes:
    """Returns bytes that mark the kind and the end of the body."""
    size = len(body)
    if size <= _PLAIN_SIZE_MAX:
        return b"%b%d:%b" % (tag, size, body)
    return b"%b#%b" % (tag, hashed(body))


def named(tag: bytes, value: Any) -> bytes:
    """Encodes an object by its importable name."""
    module = getattr(value, "__module__", None)
    name = getattr(value, "__qualname__", None) or getattr(value, "__name__", "")
    return framed(tag, f"{module}:{name}".encode("utf-8", "surrogatepass"))
