"""Estimates of how many bytes of memory a value takes.

Containers and instances are walked. Each object counts once, with the size from ``sys.getsizeof`` or its ``nbytes``.
Memory that an object of an extension module holds and does not report is not counted.
"""

from __future__ import annotations

import sys
from collections import deque
from concurrent.futures import Future
from itertools import chain
from types import BuiltinFunctionType, FunctionType, MethodType, ModuleType, NoneType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

#: Types whose values hold no other objects.
_PLAIN = frozenset({NoneType, bool, int, float, complex, str, bytes, bytearray, range, type(...)})
#: Numbers take so little memory that arguments of these types are not counted.
NUMBERS = frozenset({NoneType, bool, int, float, complex})
_LISTS = frozenset({list, tuple, set, frozenset, deque})
#: Objects that belong to the whole program, or lead to all of it.
_SHARED = (type, FunctionType, BuiltinFunctionType, MethodType, ModuleType, Future)
#: Limit on walked containers and instances. The others count with the mean size of these: a result of a thread may lead
#: to the whole program, too.
_WALKED_MAX = 100_000


def size_of(value: Any) -> int:
    """Returns the bytes that a value takes in memory, with all that it holds."""
    if type(value) in _PLAIN:
        return sys.getsizeof(value)
    return _walk([value])


def size_of_arguments(args: Iterable[Any], kwargs: Mapping[str, Any]) -> int:
    """Returns the bytes that the arguments of a call take in memory. Numbers count as 0."""
    size = 0
    for value in chain(args, kwargs.values()) if kwargs else args:
        if type(value) not in NUMBERS:
            size += size_of(value)
    return size


def _walk(waiting: list[Any]) -> int:
    size = 0
    seen: set[int] = set()
    while waiting:
        if len(seen) == _WALKED_MAX:
            return size + len(waiting) * (size // _WALKED_MAX)
        value = waiting.pop()
        kind = type(value)
        if kind in _PLAIN:
            size += sys.getsizeof(value)
            continue
        if id(value) in seen or isinstance(value, _SHARED):
            continue
        seen.add(id(value))
        size += _own_size(value)
        if kind in _LISTS:
            size += _take_in(value, waiting)
        elif isinstance(value, dict):
            size += _take_in(value.keys(), waiting) + _take_in(value.values(), waiting)
        else:
            waiting += _parts(value)
    return size


def _take_in(items: Any, waiting: list[Any]) -> int:
    """Returns the size of items that hold no other objects. Otherwise adds the items to ``waiting`` and returns 0."""
    if set(map(type, items)) <= _PLAIN:
        return sum(map(sys.getsizeof, items))
    waiting += items
    return 0


def _own_size(value: Any) -> int:
    """Returns the bytes of an object without those of the objects that it refers to."""
    try:
        own = sys.getsizeof(value)
        # An array view counts with the size of the data it shows, which it keeps alive. The class is checked first,
        # because a proxy object may have any attribute.
        inner = value.nbytes if hasattr(type(value), "nbytes") else 0
        return max(own, inner) if type(inner) is int else own
    except Exception:
        return sys.getsizeof(object())


def _parts(value: Any) -> list[Any]:
    """Returns the parts of an instance: its attributes, and its items if its class derives from a container."""
    parts: list[Any] = []
    try:
        if isinstance(value, (list, tuple, set, frozenset, deque)):
            parts += value
        if hasattr(type(value), "dtype") and getattr(value.dtype, "hasobject", False):
            parts += value.ravel().tolist()
        if isinstance(value, BaseException):
            parts += (*value.args, value.__cause__, value.__context__)
        parts += getattr(value, "__dict__", {}).values()
        for kind in type(value).__mro__:
            slots = kind.__dict__.get("__slots__", ())
            for name in (slots,) if isinstance(slots, str) else slots:
                if not name.startswith("__"):
                    parts.append(getattr(value, name, None))
    except Exception:
        return parts
    return parts
