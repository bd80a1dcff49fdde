"""Bytes that identify a value: equal for equal values in every process, different for different ones.

Every encoding marks its own end, so that no two sequences of values have the same encoding. An encoding of more than a
few bytes is replaced by its hash.

* None, booleans, numbers, strings, bytes: type and value. All NaNs are equal.
* list, tuple, dict, set, frozenset: their elements, for dicts and sets in no order. Cycles are allowed.
* numpy arrays: dtype, shape and elements, independent of the memory layout. pandas' Series and DataFrame: labels,
  dtypes and elements, column by column.
* functions: see ``memo_functions``. Classes, modules and builtin functions: their names.
* a ``File``: its URL, not its content.
* everything else: the parts of its pickle (``__reduce_ex__``), encoded one by one. The order of a dict or the identity
  of a string inside, which change the bytes of a pickle, thus do not change the key. This covers dataclasses, enums,
  paths, dates, decimals and instances of most classes. Where this fails, the bytes of its cloudpickle.
"""

from __future__ import annotations

import copyreg
import functools
import struct
import sys
from types import BuiltinFunctionType, FunctionType, MethodType, ModuleType, NoneType
from typing import TYPE_CHECKING, Any

try:
    # Not through hashlib, which loads OpenSSL.
    from _blake2 import blake2b
except ImportError:
    from hashlib import blake2b

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

#: Longer encodings are hashed, in bytes: twice the size of the hash.
_PLAIN_SIZE_MAX = 64
_HASH_SIZE = 32
#: Integers from this size on are encoded as bytes: their decimal form is expensive.
_LONG_INT = 1 << 62


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


def _int(value: int) -> bytes:
    if -_LONG_INT < value < _LONG_INT:
        return b"i%d;" % value
    return framed(b"I", value.to_bytes(value.bit_length() // 8 + 1, "little", signed=True))


def _float(value: float) -> bytes:
    return struct.pack("<cd", b"f", value) if value == value else b"n"


def _complex(value: complex) -> bytes:
    return b"c" + _float(value.real) + _float(value.imag)


def _str(value: str) -> bytes:
    return framed(b"s", value.encode("utf-8", "surrogatepass"))


#: Types whose values hold no other objects.
SCALARS: dict[type, Callable[[Any], bytes]] = {
    NoneType: lambda _: b"N",
    bool: lambda value: b"T" if value else b"F",
    int: _int,
    float: _float,
    complex: _complex,
    str: _str,
    bytes: lambda value: framed(b"b", value),
}


def named(tag: bytes, value: Any) -> bytes:
    """Encodes an object by its importable name."""
    module = getattr(value, "__module__", None)
    name = getattr(value, "__qualname__", None) or getattr(value, "__name__", "")
    return framed(tag, f"{module}:{name}".encode("utf-8", "surrogatepass"))


class Encoder:
    """The encoder for the values of one call. A value that occurs twice is encoded once.

    ``output_ref`` is passed on to registered functions.

    :param find_registered: returns the registered function for a type, if any; ``None`` if nothing is registered.
    :param scalars: encoders of the types for which nothing is registered.
    :param code_in_key: whether functions count by their code too, or by their names alone.
    """

    __slots__ = (
        "_find_registered",
        "_known",
        "_links",
        "_path",
        "_scalars",
        "code_in_key",
        "output_ref",
    )

    def __init__(
        self,
        find_registered: Callable[[type], Callable[..., bytes] | None] | None,
        scalars: Mapping[type, Callable[[Any], bytes]],
        code_in_key: bool = True,
    ) -> None:
        self._find_registered = find_registered
        self._scalars = scalars
        self.code_in_key = code_in_key
        self.output_ref = False
        #: Values that are being encoded, by id, with their depth of nesting.
        self._path: dict[int, int] = {}
        #: Values that were encoded, by id. They must stay alive as long as their ids are used.
        self._known: dict[int, tuple[Any, bytes]] = {}
        #: Number of times that a value was found inside itself.
        self._links = 0

    def encode(self, value: Any) -> bytes:
        """Returns the bytes that identify a value.

        Raises ``UnkeyableValue``, and the exceptions of registered functions.
        """
        kind = type(value)
        if kind in self._scalars:
            return self._scalars[kind](value)
        registered = self._find_registered(kind) if self._find_registered is not None else None
        if registered is None:
            return self.encode_unregistered(value)
        # The contract says bytes, but many registered functions return text.
        identity: Any = registered(value, output_ref=self.output_ref)
        return framed(b"r", named(b"t", kind) + self.encode_unregistered(identity))

    def encode_unregistered(self, value: Any) -> bytes:
        """Returns the bytes that identify a value, and ignores a registration for the value's own type."""
        kind = type(value)
        scalar = SCALARS.get(kind)
        if scalar is not None:
            return scalar(value)
        identity = id(value)
        if identity in self._path:
            self._links += 1
            # Relative to the current depth, so that it is the same wherever the outer value occurs.
            return b"@%d;" % (len(self._path) - self._path[identity])
        if identity in self._known:
            return self._known[identity][1]
        links = self._links
        self._path[identity] = len(self._path)
        try:
            encoded = _RULES.get(kind, _other)(self, value)
        finally:
            del self._path[identity]
        if links == self._links:
            self._known[identity] = value, encoded
        return encoded

    def in_order(self, tag: bytes, values: Iterable[Any]) -> bytes:
        """Encodes values whose order counts."""
        return framed(tag, b"".join(map(self.encode, values)))

    def in_no_order(self, tag: bytes, values: Iterable[Any]) -> bytes:
        """Encodes values whose order does not count."""
        return framed(tag, b"".join(sorted(map(self.encode, values))))

    def pairs(self, tag: bytes, pairs: Iterable[tuple[Any, Any]]) -> bytes:
        """Encodes keys and values, in no order."""
        encode, inner, self.output_ref = self.encode, self.output_ref, False
        keys = [(encode(key), value) for key, value in pairs]
        self.output_ref = inner
        return framed(tag, b"".join(sorted(key + encode(value) for key, value in keys)))


def _function(encoder: Encoder, value: Any) -> bytes:
    from gristmill.parsl._kernel.memo_functions import function_part

    return function_part(value, encoder)


def _method(encoder: Encoder, value: MethodType) -> bytes:
    return encoder.in_order(b"m", (value.__func__, value.__self__))


def _partial(encoder: Encoder, value: functools.partial[Any]) -> bytes:
    return encoder.in_order(b"P", (value.func, value.args, value.keywords))


_RULES: dict[type, Callable[[Encoder, Any], bytes]] = {
    list: lambda encoder, value: encoder.in_order(b"l", value),
    tuple: lambda encoder, value: encoder.in_order(b"t", value),
    dict: lambda encoder, value: encoder.pairs(b"d", value.items()),
    set: lambda encoder, value: encoder.in_no_order(b"S", value),
    frozenset: lambda encoder, value: encoder.in_no_order(b"Z", value),
    bytearray: lambda _, value: framed(b"y", bytes(value)),
    type: lambda _, value: named(b"C", value),
    ModuleType: lambda _, value: framed(b"M", value.__name__.encode()),
    FunctionType: _function,
    MethodType: _method,
    functools.partial: _partial,
}


def _other(encoder: Encoder, value: Any) -> bytes:
    """Encodes values of other types by their modules, or by the parts of their pickle."""
    kind = type(value)
    if isinstance(value, type):
        return named(b"C", value)
    if _is_file(kind):
        return framed(b"u", str(value.url).encode("utf-8", "surrogatepass"))
    if kind.__module__.partition(".")[0] in ("numpy", "pandas"):
        from gristmill.parsl._kernel.memo_arrays import encode_array

        encoded = encode_array(encoder, value)
        if encoded is not None:
            return encoded
    try:
        reducer = copyreg.dispatch_table.get(kind)
        reduced = reducer(value) if reducer else value.__reduce_ex__(4)
    except RecursionError:
        raise
    except Exception as error:
        return _pickled(value, error)
    if isinstance(reduced, str):
        return framed(b"g", f"{getattr(value, '__module__', None)}:{reduced}".encode())
    return framed(b"o", _reduced(encoder, value, *reduced))


def _reduced(
    encoder: Encoder,
    value: Any,
    make: Any,
    arguments: tuple[Any, ...],
    state: Any = None,
    elements: Iterable[Any] | None = None,
    pairs: Iterable[tuple[Any, Any]] | None = None,
    _setter: Any = None,
) -> bytes:
    """Encodes the parts of a pickle. Of the subclasses of dict, only ``OrderedDict`` compares in order."""
    from collections import OrderedDict

    is_named = isinstance(make, (type, FunctionType, BuiltinFunctionType))
    pieces = [named(b"g", make) if is_named else encoder.encode(make)]
    pieces += encoder.encode(arguments), encoder.encode(state)
    if elements is not None:
        pieces.append(encoder.in_order(b"l", elements))
    if pairs is not None:
        is_ordered = isinstance(value, OrderedDict)
        ordered = encoder.in_order(b"D", pairs) if is_ordered else encoder.pairs(b"d", pairs)
        pieces.append(ordered)
    return b"".join(pieces)


def _pickled(value: Any, error: Exception) -> bytes:
    import cloudpickle

    try:
        return framed(b"p", cloudpickle.dumps(value))
    except Exception:
        raise UnkeyableValue(f"a {type(value).__qualname__} cannot be pickled ({error})") from error


def _is_file(kind: type) -> bool:
    for module in ("gristmill.parsl._kernel.files", "parsl.data_provider.files"):
        file_type = getattr(sys.modules.get(module), "File", None)
        if file_type is not None and issubclass(kind, file_type):
            return True
    return False
