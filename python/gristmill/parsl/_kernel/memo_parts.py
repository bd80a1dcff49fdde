"""Bytes that identify parts of classes, views, and members of enums: values whose pickle fails or omits something.

* properties, static and class methods, cached functions and cached properties: the functions in them.
* members of an enum without a stable name: their class, name and value.
* views of dicts and of memory: what they show.
* subclasses of numpy arrays: the attributes of the instance, which the pickle of an array omits.
"""

from __future__ import annotations

import functools
import sys
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from gristmill.parsl._kernel.memo_classes import has_stable_name

if TYPE_CHECKING:
    from collections.abc import Callable

    from gristmill.parsl._kernel.memo_values import Encoder

#: The parts of values of a type, which differ from those of every other type by the first one.
_PARTS: dict[type, Callable[[Any], tuple[Any, ...]]] = {
    MappingProxyType: lambda value: ("mappingproxy", dict(value)),
    memoryview: lambda value: ("memoryview", value.format, value.shape, value.readonly, bytes(value)),
    type({}.keys()): lambda value: ("dict_keys", set(value)),
    type({}.values()): lambda value: ("dict_values", list(value)),
    type({}.items()): lambda value: ("dict_items", dict(value)),
    functools._lru_cache_wrapper: lambda value: (
        "lru_cache",
        value.__wrapped__,
        value.cache_parameters(),
    ),
    functools.cached_property: lambda value: ("cached_property", value.func, value.attrname, value.__doc__),
    staticmethod: lambda value: ("staticmethod", value.__func__),
    classmethod: lambda value: ("classmethod", value.__func__),
}  # fmt: skip


def encode_part(encoder: Encoder, value: Any) -> bytes | None:
    """Encodes a value of these kinds. Returns ``None`` for anything else."""
    kind = type(value)
    parts = _PARTS.get(kind)
    if parts is not None:
        return encoder.in_order(b"w", parts(value))
    if issubclass(kind, property):
        functions = value.fget, value.fset, value.fdel
        return encoder.in_order(
            b"w", (kind, *functions, value.__doc__, getattr(value, "__dict__", {}))
        )
    enum: Any = sys.modules.get("enum")
    if enum is not None and issubclass(kind, enum.Enum) and not has_stable_name(kind):
        return encoder.in_order(b"w", (kind, value._name_, value._value_))
    return None


def omitted(encoder: Encoder, value: Any) -> bytes:
    """Encodes the attributes of an array that its pickle omits."""
    array: Any = getattr(sys.modules.get("numpy"), "ndarray", None)
    if (
        array is None
        or not isinstance(value, array)
        or type(value).__reduce__ is not array.__reduce__
    ):
        return b""
    attributes = getattr(value, "__dict__", None)
    return encoder.encode(attributes) if attributes else b""
