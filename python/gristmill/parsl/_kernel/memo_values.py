"""Bytes that identify a value: equal for equal values in every process, different for different ones.

Every encoding marks its own end, so that no two sequences of values have the same encoding. An encoding of more than a
few bytes is replaced by its hash.

* None, booleans, numbers, strings, bytes: type and value. All NaNs are equal.
* list, tuple, dict, set, frozenset: their elements, for dicts and sets in no order. Cycles are allowed.
* numpy arrays: dtype, shape and elements, independent of the memory layout. pandas' Series and DataFrame: labels,
  dtypes and elements, column by column.
* functions: see ``memo_functions``. Builtin functions: their names.
* classes, modules and what else a pickle names: their names if these are stable, otherwise their content
  (``memo_classes``).
* a ``File``: its URL, not its content.
* everything else: the parts of its pickle (``__reduce_ex__``), encoded one by one. The order of a dict or the identity
  of a string inside, which change the bytes of a pickle, thus do not change the key. This covers dataclasses, enums,
  paths, dates, decimals and instances of most classes. Parts of classes, such as properties, and views have rules of
  their own (``memo_parts``). Where this fails, the bytes of its cloudpickle.
"""

from __future__ import annotations

import contextlib
import copyreg
import functools
import struct
import sys
from types import BuiltinFunctionType, FunctionType, MethodType, ModuleType, NoneType
from typing import TYPE_CHECKING, Any

from gristmill.parsl._kernel.memo_bytes import UnkeyableValue, framed, named
from gristmill.parsl._kernel.memo_classes import (
    class_part,
    global_part,
    has_stable_name,
    module_part,
)
from gristmill.parsl._kernel.memo_parts import encode_part, omitted

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

#: Integers from this size on are encoded as bytes: their decimal form is expensive.
_LONG_INT = 1 << 62

#: The function that the pickles of most objects call, and its encoding.
_NEW_OBJECT = copyreg.__newobj__  # type: ignore[attr-defined]
_NEW_OBJECT_NAME = named(b"g", _NEW_OBJECT)
#: More than any depth of nesting.
_NO_DEPTH = 1 << 62


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


class Encoder:
    """The encoder for the values of one call. A value that occurs twice is encoded once.

    ``output_ref`` is passed on to registered functions.

    :param find_registered: returns the registered function for a type, if any; ``None`` if nothing is registered.
    :param scalars: encoders of the types for which nothing is registered.
    :param code_in_key: whether functions count by their code too, or by their names alone.
    """

    __slots__ = (
        "_classes",
        "_find_registered",
        "_highest_link",
        "_known",
        "_links",
        "_path",
        "_scalars",
        "code_in_key",
        "is_in_class",
        "is_lenient",
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
        #: Smallest depth of a value that was found inside the innermost class.
        self._highest_link = _NO_DEPTH
        #: Contents of classes that contain nothing that they are in, by id.
        self._classes: dict[int, tuple[type, bytes]] = {}
        #: True while the content of a class is being encoded.
        self.is_in_class = False
        #: True while instances that cannot be identified count by their types.
        self.is_lenient = False

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
            depth = self._path[identity]
            self._highest_link = min(self._highest_link, depth)
            # Relative to the current depth, so that it is the same wherever the outer value occurs.
            return b"@%d;" % (len(self._path) - depth)
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

    @property
    def is_settled(self) -> bool:
        """True if an encoding made now is the same everywhere: no value that it may be a part of is being encoded."""
        return not self._path

    @property
    def links(self) -> int:
        """Number of times that a value was found inside itself."""
        return self._links

    def class_content(self, value: type, content: Callable[[], bytes]) -> bytes:
        """Returns the encoding of the content of a class, which is made once. Functions in it count by their code."""
        known = self._classes.get(id(value))
        if known is not None:
            return known[1]
        outer, self._highest_link = self._highest_link, _NO_DEPTH
        with self._mode(True, True, self.is_lenient):
            encoded = content()
        if self._highest_link >= self._path[id(value)]:
            self._classes[id(value)] = value, encoded
        self._highest_link = min(outer, self._highest_link)
        return encoded

    def encode_leniently(self, value: Any) -> bytes:
        """Encodes a value in which an instance that cannot be identified, such as a lock, counts by its type."""
        if type(value) in self._scalars:
            return self._scalars[type(value)](value)
        with self._mode(self.code_in_key, self.is_in_class, is_lenient=True):
            return self.encode(value)

    @contextlib.contextmanager
    def _mode(self, code_in_key: bool, is_in_class: bool, is_lenient: bool) -> Iterator[None]:
        """Changes how values are encoded. What was encoded in another way is not used again."""
        before = self.code_in_key, self.is_in_class, self.is_lenient, self.output_ref
        after = code_in_key, is_in_class, is_lenient, False
        known = self._known, self._classes
        if after != before:
            self._known, self._classes = {}, {}
        self.code_in_key, self.is_in_class, self.is_lenient, self.output_ref = after
        try:
            yield
        finally:
            self._known, self._classes = known
            self.code_in_key, self.is_in_class, self.is_lenient, self.output_ref = before

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
    own = (vars(value),) if vars(value) else ()
    return encoder.in_order(b"P", (value.func, value.args, value.keywords, *own))


_RULES: dict[type, Callable[[Encoder, Any], bytes]] = {
    list: lambda encoder, value: encoder.in_order(b"l", value),
    tuple: lambda encoder, value: encoder.in_order(b"t", value),
    dict: lambda encoder, value: encoder.pairs(b"d", value.items()),
    set: lambda encoder, value: encoder.in_no_order(b"S", value),
    frozenset: lambda encoder, value: encoder.in_no_order(b"Z", value),
    bytearray: lambda _, value: framed(b"y", bytes(value)),
    type: class_part,
    ModuleType: module_part,
    FunctionType: _function,
    MethodType: _method,
    functools.partial: _partial,
}


def _other(encoder: Encoder, value: Any) -> bytes:
    """Encodes values of other types by the rules of other modules, or by the parts of their pickle."""
    kind = type(value)
    if issubclass(kind, type):
        return class_part(encoder, value)
    if _is_file(kind):
        return framed(b"u", str(value.url).encode("utf-8", "surrogatepass"))
    encoded = encode_part(encoder, value)
    if encoded is None and kind.__module__.partition(".")[0] in ("numpy", "pandas"):
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
        return _pickled(encoder, value, error)
    if isinstance(reduced, str):
        return global_part(encoder, value, reduced)
    return framed(b"o", _reduced(encoder, value, *reduced) + omitted(encoder, value))


def _reduced(
    encoder: Encoder,
    value: Any,
    make: Any,
    arguments: tuple[Any, ...],
    state: Any = None,
    elements: Iterable[Any] | None = None,
    pairs: Iterable[tuple[Any, Any]] | None = None,
    setter: Any = None,
) -> bytes:
    """Encodes the parts of a pickle. Of the subclasses of dict, only ``OrderedDict`` compares in order."""
    from collections import OrderedDict

    pieces = [_maker(encoder, make), encoder.encode(arguments), encoder.encode(state)]
    if elements is not None:
        pieces.append(encoder.in_order(b"l", elements))
    if pairs is not None:
        is_ordered = isinstance(value, OrderedDict)
        ordered = encoder.in_order(b"D", pairs) if is_ordered else encoder.pairs(b"d", pairs)
        pieces.append(ordered)
    if setter is not None:
        pieces.append(_maker(encoder, setter))
    return b"".join(pieces)


def _maker(encoder: Encoder, make: Any) -> bytes:
    """Encodes what a pickle calls: by its name if that is stable."""
    if make is _NEW_OBJECT:
        return _NEW_OBJECT_NAME
    kind = type(make)
    if kind is BuiltinFunctionType:
        is_named = isinstance(make.__self__, ModuleType | NoneType)
    else:
        is_named = (kind is FunctionType or issubclass(kind, type)) and has_stable_name(make)
    return named(b"g", make) if is_named else encoder.encode(make)


def _pickled(encoder: Encoder, value: Any, error: Exception) -> bytes:
    import cloudpickle

    try:
        return framed(b"p", cloudpickle.dumps(value))
    except Exception:
        kind = type(value)
        if not encoder.is_lenient:
            raise UnkeyableValue(f"a {kind.__qualname__} cannot be pickled ({error})") from error
    return named(b"?", kind) if has_stable_name(kind) else framed(b"?", encoder.encode(kind))


def _is_file(kind: type) -> bool:
    for module in ("gristmill.parsl._kernel.files", "parsl.data_provider.files"):
        file_type = getattr(sys.modules.get(module), "File", None)
        if file_type is not None and issubclass(kind, file_type):
            return True
    return False
