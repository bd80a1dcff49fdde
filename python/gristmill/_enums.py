"""Construction of enums that are sent by value, without the constructors of their members.

A constructor (``__new__`` or ``__init__``) can need what only the class statement had, and it has run already in the
process that the enum is from. So each member is made of its value and of the attributes that it has there.
"""

from __future__ import annotations

import copyreg
import enum
from typing import Any

#: Attributes of a member that ``EnumType`` sets.
_OF_MEMBER = ("_value_", "_name_", "__objclass__", "_sort_order_", "_inverted_")
#: ``Py_TPFLAGS_HEAPTYPE``.
_HEAP_TYPE = 1 << 9


class _Member:
    """Stand-in for a member in the class statement of ``make``."""

    def __init__(self, value: Any, kind: type, data: tuple[Any, ...]) -> None:
        self.value = value
        #: Type that makes the object, and its further arguments.
        self.kind = kind
        self.data = data


def arguments(cls: type[enum.Enum]) -> tuple[Any, ...]:
    """Returns the arguments of ``make``."""
    members = {name: (one._value_, *_origin(cls, one)) for name, one in cls.__members__.items()}
    keywords = {"boundary": vars(cls)["_boundary_"]} if issubclass(cls, enum.Flag) else {}
    names = cls.__name__, cls.__qualname__, cls.__module__
    return type(cls), cls.__bases__, names, members, keywords


def _origin(cls: Any, member: enum.Enum) -> tuple[type, tuple[Any, ...]]:
    """Returns the type whose ``__new__`` makes a member, and the arguments after the class, as ``pickle`` would."""
    kind = cls._member_type_
    if kind is object:
        return object, ()
    function, given, *rest = kind.__reduce_ex__(member, 4)
    if any(items is not None for items in rest[1:3]):
        raise TypeError(
            f"the members of {cls.__qualname__} are of type {kind.__qualname__}, and their items would be lost"
        )
    data = tuple(given[1:] if function is copyreg.__newobj__ else given)  # type: ignore[attr-defined]
    if data:
        return kind, data
    # The constructor of a class needs arguments that are not known any more.
    return next(one for one in kind.__mro__ if not one.__flags__ & _HEAP_TYPE), ()


def make(
    kind: Any,
    bases: tuple[Any, ...],
    names: tuple[str, str, str],
    members: dict[str, tuple[Any, type, tuple[Any, ...]]],
    keywords: dict[str, Any],
) -> type:
    """Makes an enum with its members and without its other attributes."""

    def new(cls: Any, given: Any) -> Any:
        while type(given) is tuple:
            (given,) = given
        made: Any = given.kind.__new__(cls, *given.data)
        made._value_ = given.value
        return made

    # The metaclass's own constructor has run too.
    space: Any = enum.EnumType.__prepare__(names[0], bases)
    space["__new__"] = new
    space["__init__"] = lambda self, _: None
    for name, member in members.items():
        space[name] = _Member(*member)
    made: Any = enum.EnumType.__new__(kind, names[0], bases, space, **keywords)
    made.__qualname__, made.__module__ = names[1:]
    for name in ("__init__", "__new_member__"):
        type.__delattr__(made, name)
    return made  # type: ignore[no-any-return]


def state(cls: type[enum.Enum]) -> tuple[dict[str, Any], list[tuple[Any, str]]]:
    """Returns the attributes of the members by their names, and the further values by which members are found."""
    own = {name: one for name, one in cls.__members__.items() if one._name_ == name}
    attributes = {name: _attributes(member) for name, member in own.items()}
    found = [
        (value, member._name_)
        for value, member in cls._value2member_map_.items()
        if own.get(member._name_) is member and member._value_ != value
    ]
    return {name: some for name, some in attributes.items() if some}, found


def _attributes(member: enum.Enum) -> dict[str, Any]:
    given = object.__getstate__(member)
    parts = given if type(given) is tuple else (given,)
    merged = {name: value for part in parts if part for name, value in part.items()}
    return {name: value for name, value in merged.items() if name not in _OF_MEMBER}


def set_state(cls: type[enum.Enum], given: tuple[dict[str, Any], list[tuple[Any, str]]]) -> None:
    """Sets what ``state`` returned."""
    attributes, found = given
    for name, some in attributes.items():
        for attribute, value in some.items():
            object.__setattr__(cls[name], attribute, value)
    for value, name in found:
        cls._value2member_map_.setdefault(value, cls[name])
