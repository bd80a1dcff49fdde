"""Bytes that identify a function by its behaviour, so that an edited function is called again.

These count:

* its module, its qualified name and its kind of parameters;
* its code, with the constants in it and the functions inside it, but not its comments, annotations or position;
* its default values and the values that it takes from enclosing functions, as they are when the function is first seen.
  Later changes inside these values are ignored, so that a function may collect results in a list;
* the module-level names that its code mentions, as they are at each call, if they are constants (None, booleans,
  numbers, strings, bytes, tuples and frozensets of them) or functions of the same top-level package, which count by the
  same rules;
* its attributes that are constants, as they are at each call.

These do not count: lists, dicts and objects at module level, attributes of modules, methods of classes that have a
stable name (``memo_classes``), and functions of other packages. If one of these changes, the program has to use another
name, another argument, or an empty checkpoint. A different minor version of Python has different code. With
``code_in_key=False`` only module and name count.

An instance that cannot be identified (such as a lock in a closure) counts by its type. Functions in the content of a
class are examined anew for each key, because they may refer to that class.
"""

from __future__ import annotations

import weakref
from types import CodeType, EllipsisType, FunctionType, NoneType
from typing import TYPE_CHECKING, Any

from gristmill._functions import fingerprint
from gristmill.parsl._kernel.memo_bytes import framed, named

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from gristmill.parsl._kernel.memo_values import Encoder

_CONSTANTS = (NoneType, bool, int, float, complex, str, bytes, EllipsisType)
_ABSENT = object()


def function_part(function: Callable[..., Any], encoder: Encoder) -> bytes:
    """Returns the part of a key that identifies a function. A cached part is reused while it is valid."""
    if not isinstance(function, FunctionType):
        return encoder.encode(function)
    if not encoder.code_in_key:
        return named(b"F", function)
    if encoder.is_in_class:
        return _make_part(function, encoder)
    return known_part(function) or _make_part(function, encoder)


def known_part(function: Callable[..., Any]) -> bytes | None:
    """Returns the cached part of a function if it is valid, else ``None``. Needs no encoder; this is the usual case."""
    part = _parts.get(id(function))
    if part is None or part[1][0].function() is not function:
        return None
    for look in part[1]:
        if not look.is_true():
            return None
    return part[0]


def _make_part(function: FunctionType, encoder: Encoder) -> bytes:
    looks: list[_Look] = []
    links = encoder.links
    part = framed(b"F", _describe(function, encoder, looks, {}))
    if _is_lasting(encoder, links):
        _parts[id(function)] = part, looks
    return part


def _is_lasting(encoder: Encoder, links: int) -> bool:
    """Returns whether what was encoded since there were ``links`` links is the same outside the current values."""
    return not encoder.is_in_class and (encoder.is_settled or encoder.links == links)


def _describe(
    function: FunctionType, encoder: Encoder, looks: list[_Look], places: dict[int, int]
) -> bytes:
    """Encodes one function and those that it mentions. A function that occurs again is encoded by its index."""
    if id(function) in places:
        return b"@%d;" % places[id(function)]
    places[id(function)] = len(places)
    look = None if encoder.is_in_class else _looks.get(id(function))
    if look is None or look.function() is not function or not look.is_true():
        look = _Look(function, encoder)
    looks.append(look)
    pieces = [look.own]
    for name, mentioned in look.mentioned(function):
        pieces += framed(b"s", name.encode()), _describe(mentioned, encoder, looks, places)
    return b"".join(pieces)


class _Look:
    """The state of one function when it was examined. It keeps no function alive."""

    __slots__ = (
        "_attributes",
        "_cells",
        "_code",
        "_constants",
        "_defaults",
        "_names",
        "_values",
        "function",
        "own",
    )

    def __init__(self, function: FunctionType, encoder: Encoder) -> None:
        identity, forget, links = id(function), _forget, encoder.links
        self.function = weakref.ref(function, lambda _: forget(identity))
        self._code = code = function.__code__
        self._defaults = function.__defaults__, function.__kwdefaults__
        cells = [(place, _value(cell)) for place, cell in enumerate(function.__closure__ or ())]
        self._cells = [(at, weakref.ref(one)) for at, one in cells if isinstance(one, FunctionType)]
        names = function.__globals__
        mentioned = {name: names.get(name, _ABSENT) for name in sorted(set(_names_in(code)))}
        self._constants = [pair for pair in mentioned.items() if _is_constant(pair[1])]
        followed = [pair for pair in mentioned.items() if _followed(pair[1], function) is not None]
        self._names = [(name, weakref.ref(value)) for name, value in followed]
        self._values = self._first_values(function, encoder)
        self._attributes = _constant_attributes(function)
        counts = code.co_argcount, code.co_posonlyargcount, code.co_kwonlyargcount, code.co_flags
        self.own = b"".join([
            named(b"F", function),
            fingerprint(function) or b"",
            b"%d,%d,%d,%d;" % counts,
            self._values,
            *(framed(b"s", name.encode()) + encoder.encode(value) for name, value in self._constants),
            encoder.encode(self._attributes) if self._attributes else b"",
        ])  # fmt: skip
        if _is_lasting(encoder, links):
            _looks[identity] = self

    def is_true(self) -> bool:
        """Returns whether the function is unchanged."""
        function = self.function()
        if function is None or function.__code__ is not self._code:
            return False
        names = function.__globals__
        for name, value in self._constants:
            if names.get(name, _ABSENT) is not value:
                return False
        for name, mentioned in self._names:
            if names.get(name, _ABSENT) is not mentioned():
                return False
        for place, inner in self._cells:
            if _value((function.__closure__ or ())[place]) is not inner():
                return False
        return self._has_defaults_of(function) and self._has_attributes_of(function)

    def _has_attributes_of(self, function: FunctionType) -> bool:
        if not function.__dict__ and not self._attributes:
            return True
        attributes = _constant_attributes(function)
        return len(attributes) == len(self._attributes) and all(
            attributes.get(name, _ABSENT) is value for name, value in self._attributes.items()
        )

    def _has_defaults_of(self, function: FunctionType) -> bool:
        defaults, named_defaults = self._defaults
        return function.__defaults__ is defaults and function.__kwdefaults__ is named_defaults

    def mentioned(self, function: FunctionType) -> Iterator[tuple[str, FunctionType]]:
        """Yields the functions that count as part of this one, each with its name or its index in the closure."""
        for place, inner in self._cells:
            if (value := inner()) is not None:
                yield str(place), value
        for name, _ in self._names:
            value = _followed(function.__globals__.get(name), function)
            if value is not None:
                yield name, value

    def _first_values(self, function: FunctionType, encoder: Encoder) -> bytes:
        """Encodes default values and closure values as they were when the function was first examined."""
        earlier = None if encoder.is_in_class else _looks.get(id(function))
        if (
            earlier is not None
            and earlier.function() is function
            and earlier._has_defaults_of(function)
        ):
            return earlier._values
        named_defaults = function.__kwdefaults__ or {}
        cells = [_value(cell) for cell in function.__closure__ or ()]
        values = [
            *(function.__defaults__ or ()),
            *map(named_defaults.get, sorted(named_defaults)),
            *(value for value in cells if not isinstance(value, FunctionType)),
        ]
        # Named defaults need their names: ``*, a=1, b`` is not ``*, a, b=1``.
        names = encoder.encode(sorted(named_defaults)) if named_defaults else b""
        encoded = (
            b"-" if value is _ABSENT else encoder.encode_leniently(value) for value in values
        )
        return names + b"".join(encoded)


#: Both by the functions' ids.
_parts: dict[int, tuple[bytes, list[_Look]]] = {}
_looks: dict[int, _Look] = {}


def _forget(identity: int, parts: Any = _parts, looks: Any = _looks) -> None:
    parts.pop(identity, None)
    looks.pop(identity, None)


def _value(cell: Any) -> Any:
    try:
        return cell.cell_contents
    except ValueError:
        # The cell is not filled yet.
        return _ABSENT


def _constant_attributes(function: FunctionType) -> dict[str, Any]:
    return {name: value for name, value in vars(function).items() if _is_constant(value)}


def _followed(value: Any, function: FunctionType) -> FunctionType | None:
    """Returns the function that a module-level name refers to, if it is of the same package, else ``None``.

    An app counts as its function.
    """
    if not isinstance(value, FunctionType):
        if type(value).__weakrefoffset__ == 0:
            return None
        value = getattr(value, "__dict__", {}).get("__wrapped__")
    if not isinstance(value, FunctionType):
        return None
    return value if _package(value) == _package(function) else None


def _package(function: FunctionType) -> str:
    return str(function.__module__).partition(".")[0]


def _is_constant(value: Any) -> bool:
    if type(value) in (tuple, frozenset):
        return all(map(_is_constant, value))
    return type(value) in _CONSTANTS


def _names_in(code: CodeType) -> Iterator[str]:
    yield from code.co_names
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _names_in(constant)
