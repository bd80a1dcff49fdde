"""Reducers for classes of ``ctypes`` and ``msgspec``. Their metaclasses are in C, so cloudpickle cannot send them.

Such a metaclass reads what it needs from the class statement, and writes values into the class that are valid only in
this process.
"""

from __future__ import annotations

import inspect
import operator
import sys
from typing import Any

_CTYPES_BASES = ("Structure", "Union", "Array", "_Pointer", "_SimpleCData", "_CFuncPtr")
#: Attributes that a ``ctypes`` class is made of. The fields of a structure are set later: they may refer back to it.
_CTYPES_STATEMENT = ("_type_", "_length_", "_flags_", "_argtypes_", "_restype_")
#: Attributes that affect the fields of a structure, and the fields.
_CTYPES_LAYOUT = ("_pack_", "_align_", "_layout_", "_anonymous_", "_fields_")
_STRUCT_OPTIONS = (
    "frozen",
    "eq",
    "order",
    "array_like",
    "gc",
    "repr_omit_defaults",
    "omit_defaults",
    "forbid_unknown_fields",
    "weakref",
    "dict",
    "cache_hash",
    "tag",
    "tag_field",
)


def reduce_made(cls: type) -> tuple[Any, ...] | None:
    """Returns the reduction of a class that ``ctypes`` derives from another class; ``None`` for other classes.

    A derived class is one of arrays, of pointers or of numbers in the other byte order, or a metaclass.
    """
    ctypes = _loaded("ctypes", "POINTER")
    if ctypes is None:
        return None
    if issubclass(cls, type):
        bases = (getattr(ctypes, name) for name in _CTYPES_BASES)
        return next(((type, (base,)) for base in bases if type(base) is cls), None)
    if "_type_" not in vars(cls):
        return None
    for order, other_order in (("__ctype_le__", "__ctype_be__"), ("__ctype_be__", "__ctype_le__")):
        native = vars(cls).get(order, cls)
        if native is not cls and getattr(native, other_order, None) is cls:
            return getattr, (native, other_order)
    of: Any = vars(cls)["_type_"]
    if issubclass(cls, ctypes.Array) and of * vars(cls).get("_length_", 0) is cls:
        return operator.mul, (of, vars(cls)["_length_"])
    if issubclass(cls, ctypes._Pointer) and ctypes.POINTER(of) is cls:
        return ctypes.POINTER, (of,)
    return None


def statement(cls: type) -> tuple[dict[str, Any], dict[str, Any]]:
    """Returns the members and keywords that a class statement needs besides the name and the bases."""
    if _is_ctypes(cls):
        return {name: vars(cls)[name] for name in _CTYPES_STATEMENT if name in vars(cls)}, {}
    if is_struct(cls):
        return _struct_statement(cls)
    return {}, {}


def is_known(cls: type) -> bool:
    """Returns whether the attributes of a class and its ``statement`` describe all of it."""
    return _is_ctypes(cls) or is_struct(cls)


def is_struct(cls: type) -> bool:
    """Returns whether a class is a ``msgspec`` struct."""
    msgspec = _loaded("msgspec", "Struct")
    return msgspec is not None and issubclass(cls, msgspec.Struct)


def sort_state(cls: type, members: dict[str, Any]) -> None:
    """Removes the members of a class that its metaclass makes, and moves those of a layout to the end, in order."""
    if not _is_ctypes(cls):
        return
    for name, member in list(members.items()):
        kind = type(member)
        if name in _CTYPES_STATEMENT or (kind.__module__, kind.__name__) == ("_ctypes", "CField"):
            del members[name]
    for name in _CTYPES_LAYOUT:
        if name in members:
            members[name] = members.pop(name)


def without_layout(cls: type, members: dict[str, Any]) -> dict[str, Any]:
    """Returns the members that can be set on a class that may already have its layout."""
    if not _is_ctypes(cls) or "_fields_" not in vars(cls):
        return members
    return {name: member for name, member in members.items() if name not in _CTYPES_LAYOUT}


def _loaded(name: str, needed: str) -> Any:
    """Returns a module if it is loaded so far that it has the needed attribute."""
    module = sys.modules.get(name)
    return module if hasattr(module, needed) else None


def _is_ctypes(cls: type) -> bool:
    ctypes = _loaded("ctypes", "POINTER")
    return ctypes is not None and issubclass(cls, ctypes.Structure.__base__)


def _struct_statement(cls: Any) -> tuple[dict[str, Any], dict[str, Any]]:
    named = {name: vars(cls)[name] for name in ("__post_init__",) if name in vars(cls)}
    fields = cls.__struct_fields__
    # Annotations of no field come with the state.
    annotations = inspect.get_annotations(cls)
    named["__annotations__"] = {name: annotations[name] for name in fields if name in annotations}
    keywords = {name: getattr(cls.__struct_config__, name) for name in _STRUCT_OPTIONS}
    first_default = len(fields) - len(cls.__struct_defaults__)
    for index, (name, encoded) in enumerate(zip(fields, cls.__struct_encode_fields__, strict=True)):
        if name not in annotations:
            continue
        if name not in cls.__match_args__:
            keywords["kw_only"] = True
        arguments = {} if encoded == name else {"name": encoded}
        if index >= first_default:
            arguments |= _default(cls.__struct_defaults__[index - first_default])
        if arguments:
            named[name] = _Field(arguments)
    return named, keywords


def _default(value: Any) -> dict[str, Any]:
    if value is sys.modules["msgspec"].NODEFAULT:
        return {}
    kind = type(value)
    if (kind.__module__, kind.__name__) == ("msgspec._core", "Factory"):
        return {"default_factory": value.factory}
    return {"default": value}


class _Field:
    """Stand-in for a field in the class statement of a struct."""

    def __init__(self, arguments: dict[str, Any]) -> None:
        self._arguments = arguments

    def __reduce__(self) -> tuple[Any, ...]:
        return _make_field, (self._arguments,)


def _make_field(arguments: dict[str, Any]) -> Any:
    import msgspec

    return msgspec.field(**arguments)
