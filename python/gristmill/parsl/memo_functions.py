"""Bytes that identify a function by what it does, so that an edited function is called again.

What counts:

* its module, its qualified name and its kind of parameters;
* its code, with the constants in it and the functions inside it; not its comments, its annotations or where it stands;
* its default values, and the values that it takes from the functions around it;
* the module-level names that its code mentions, where these are constants (None, booleans, numbers, strings, bytes,
  tuples and frozensets of them) or functions of the same top-level package, which count by the same rules.

What does not: lists, dicts and objects at module level, attributes of modules, methods of classes, and functions of
other packages. A change of these is for the program to announce: by another name, by an argument, or by an empty
checkpoint. A different minor version of Python has different code. With ``code_in_key=False`` module and name are all.

A value that cannot be identified (a lock that a function closes over) counts by its type.
"""

from __future__ import annotations

import weakref
from types import CellType, CodeType, EllipsisType, FunctionType, NoneType
from typing import TYPE_CHECKING, Any

from gristmill._functions import fingerprint
from gristmill.parsl.memo_values import UnkeyableValue, framed, named

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from gristmill.parsl.memo_values import Encoder

_CONSTANTS = (NoneType, bool, int, float, complex, str, bytes, EllipsisType)
_ABSENT = object()


def function_part(function: Callable[..., Any], encoder: Encoder) -> bytes:
    """What a function adds to a key. What was found out about it is used again as long as it is true."""
    if not isinstance(function, FunctionType):
        return encoder.encode(function)
    if not encoder.code_in_key:
        return named(b"F", function)
    part = _parts.get(id(function))
    if part is None or part.function() is not function or not part.is_true(encoder):
        part = _Part(function, encoder)
    return part.encoded


def known_part(function: Callable[..., Any]) -> bytes | None:
    """The same without an encoder, if it is known and needs none; the usual case."""
    part = _parts.get(id(function))
    if part is None or part.function() is not function or not part.is_true(None):
        return None
    return part.encoded


class _Part:
    """What one function adds, and what has to stay as it is for that to be true."""

    __slots__ = ("_contents", "_functions", "_names", "_same", "encoded", "function")

    def __init__(self, function: FunctionType, encoder: Encoder) -> None:
        #: The function and those that it mentions, with their code and their defaults.
        self._functions: list[tuple[FunctionType, CodeType, Any, Any]] = []
        #: What names at module level mean, and which functions are in cells.
        self._names: list[tuple[dict[str, Any], str, Any]] = []
        self._same: list[tuple[CellType, FunctionType]] = []
        #: Defaults and cells, whose values may change inside, and what they were.
        self._contents: list[tuple[CellType, bytes]] = []
        self.encoded = framed(b"F", self._describe(function, encoder, {}))
        identity, forget = id(function), _parts.pop
        self.function = weakref.ref(function, lambda _: forget(identity, None))
        _parts[identity] = self

    def is_true(self, encoder: Encoder | None) -> bool:
        """Whether nothing has changed, as far as can be told without an encoder."""
        for function, code, defaults, named_defaults in self._functions:
            if (
                function.__code__ is not code
                or function.__defaults__ is not defaults
                or function.__kwdefaults__ is not named_defaults
            ):
                return False
        for namespace, name, value in self._names:
            if namespace.get(name, _ABSENT) is not value:
                return False
        for cell, same in self._same:
            if _value(cell) is not same:
                return False
        if encoder is None:
            return not self._contents
        return all(_content(cell, encoder) == encoded for cell, encoded in self._contents)

    def _describe(self, function: FunctionType, encoder: Encoder, seen: dict[int, int]) -> bytes:
        if id(function) in seen:
            return b"@%d;" % seen[id(function)]
        seen[id(function)] = len(seen)
        code = function.__code__
        self._functions.append((function, code, function.__defaults__, function.__kwdefaults__))
        counts = code.co_argcount, code.co_posonlyargcount, code.co_kwonlyargcount, code.co_flags
        pieces = [named(b"F", function), fingerprint(function) or b"", b"%d,%d,%d,%d;" % counts]
        pieces += self._describe_values(function, encoder, seen)
        for name in sorted(set(_names_in(code))):
            value = function.__globals__.get(name, _ABSENT)
            followed = _followed(value, function)
            if followed is not None:
                pieces += framed(b"s", name.encode()), self._describe(followed, encoder, seen)
            elif _is_constant(value):
                pieces += framed(b"s", name.encode()), encoder.encode(value)
            self._names.append((function.__globals__, name, value))
        return b"".join(pieces)

    def _describe_values(
        self, function: FunctionType, encoder: Encoder, seen: dict[int, int]
    ) -> Iterator[bytes]:
        """Defaults, which are looked at as if they were in cells, and cells."""
        named_defaults = function.__kwdefaults__ or {}
        values = [*(function.__defaults__ or ()), *map(named_defaults.get, sorted(named_defaults))]
        for cell in (*map(CellType, values), *(function.__closure__ or ())):
            value = _value(cell)
            if isinstance(value, FunctionType):
                self._same.append((cell, value))
                yield self._describe(value, encoder, seen)
            else:
                encoded = _content(cell, encoder)
                if not _is_constant(value) or cell in (function.__closure__ or ()):
                    self._contents.append((cell, encoded))
                yield encoded


#: By the functions' ids.
_parts: dict[int, _Part] = {}


def _value(cell: CellType) -> Any:
    try:
        return cell.cell_contents
    except ValueError:
        # It was not filled yet.
        return _ABSENT


def _content(cell: CellType, encoder: Encoder) -> bytes:
    value = _value(cell)
    try:
        return b"-" if value is _ABSENT else encoder.encode(value)
    except UnkeyableValue:
        return named(b"?", type(value))


def _followed(value: Any, function: FunctionType) -> FunctionType | None:
    """The function that a module-level name means, if it is of the same package; an app means its function."""
    if not isinstance(value, FunctionType):
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
