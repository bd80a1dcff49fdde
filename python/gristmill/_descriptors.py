"""Reduction of objects whose class derives from a built-in one that ``pickle`` refuses, such as a descriptor."""

from __future__ import annotations

import functools
import threading
from typing import Any

#: Classes that are written in C, or whose objects hold a lock.
BASES = (property, classmethod, staticmethod, functools.cached_property, threading.local)
#: Attribute that ``cached_property`` makes anew in each process.
_LOCK = "lock"


def is_reduced(kind: type) -> bool:
    """Returns whether ``reduce_derived`` knows the objects of a class that derives from ``BASES``.

    It does not if the class is one of them, or says itself how its objects are pickled.
    """
    names = ("__reduce_ex__", "__reduce__", "__getstate__")
    own = all(getattr(kind, name) is getattr(object, name) for name in names)
    return own and kind not in BASES


def reduce_derived(value: Any) -> tuple[Any, ...]:
    """Returns the reduction of an object. The constructor of a descriptor does not run again: it may need arguments."""
    kind = type(value)
    base = next(one for one in BASES if issubclass(kind, one))
    if base is threading.local:
        # Each process has data of its own, as each thread has.
        return kind, ()
    return _make, (base, kind), _state(base, value), None, None, _set_state


def _state(base: type, value: Any) -> tuple[tuple[Any, ...], dict[str, Any]]:
    arguments: tuple[Any, ...]
    if base is property:
        arguments = value.fget, value.fset, value.fdel, value.__doc__
    elif base is functools.cached_property:
        arguments = (value.func,)
    else:
        arguments = (value.__func__,)
    given = object.__getstate__(value)
    parts = given if type(given) is tuple else (given,)
    attributes = {name: part[name] for part in parts if part for name in part}
    return arguments, {name: one for name, one in attributes.items() if name != _LOCK}


def _make(base: Any, kind: type) -> Any:
    return base.__new__(kind)


def _set_state(value: Any, state: tuple[tuple[Any, ...], dict[str, Any]]) -> None:
    base: Any = next(one for one in BASES if isinstance(value, one))
    base.__init__(value, *state[0])
    for name, attribute in state[1].items():
        object.__setattr__(value, name, attribute)
