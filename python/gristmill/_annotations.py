"""Names in annotations that are strings, which ``typing.get_type_hints`` looks up in the module of a function or class.

A function by value gets them among its globals. For a class of ``__main__``, they come into the worker's ``__main__``,
which is empty otherwise. Only classes, modules and types of ``typing`` are sent, so that an annotation seldom brings
what cannot be pickled, and none of other packages: a worker would import them, or fail to, though no call needs them.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import sys
import types
import typing
from typing import Any

from gristmill import _creation_sites, _modules

#: The largest depth of types within types that is searched.
_DEPTH_MAX = 8
#: Modules of the types that types of ``typing`` have.
_TYPING = ("typing", "typing_extensions", "types")
#: Names that this worker's ``__main__`` has from pickles. The newest pickle decides.
_provided: set[str] = set()


def of_function(function: Any) -> dict[str, Any]:
    """Returns the globals that the string annotations of a function name."""
    annotations: Any = {}
    with contextlib.suppress(Exception):  # from Python 3.14 on, this may run the annotations
        annotations = function.__annotations__
    return _named(annotations, function.__globals__)


def of_class(cls: type) -> dict[str, Any]:
    """Returns the contents of ``__main__`` that the string annotations of a class of it name."""
    if cls.__module__ != "__main__":
        return {}
    # Reading the attribute would give the class an empty dict if it has none.
    annotations = vars(cls).get("__annotations__")
    return _named(annotations, vars(sys.modules["__main__"]))


def provide(hints: dict[str, Any]) -> None:
    """Gives a worker's ``__main__`` what ``of_class`` returned. Does nothing in a program."""
    if not hints or not _creation_sites.is_worker():
        return
    namespace = vars(sys.modules["__main__"])
    for name, value in hints.items():
        if name in _provided or name not in namespace:
            namespace[name] = value
            _provided.add(name)


def _named(annotations: Any, namespace: dict[str, Any]) -> dict[str, Any]:
    if not annotations or type(annotations) is not dict:
        return {}
    names: set[str] = set()
    for annotation in annotations.values():
        _collect(annotation, names, _DEPTH_MAX)
    found = {name: namespace[name] for name in sorted(names) if name in namespace}
    return {name: value for name, value in found.items() if _is_type(value)}


def _collect(annotation: Any, names: set[str], depth: int) -> None:
    """Adds the names in an annotation, and in strings within it, to a set."""
    if isinstance(annotation, str):
        names.update(_names_in(annotation))
    elif isinstance(annotation, typing.ForwardRef):
        names.update(_names_in(annotation.__forward_arg__))
    elif depth:
        for part in getattr(annotation, "__args__", ()) or ():
            _collect(part, names, depth - 1)


@functools.lru_cache(maxsize=1024)
def _names_in(text: str) -> tuple[str, ...]:
    try:
        code = compile(text, "<annotation>", "eval", dont_inherit=True)
    except (SyntaxError, ValueError):
        return ()
    names = set(code.co_names)
    waiting = list(code.co_consts)
    while waiting:
        constant = waiting.pop()
        if isinstance(constant, tuple):
            waiting += constant
        elif isinstance(constant, str):  # a type within a string
            names.update(_names_in(constant))
    return tuple(names)


def _is_type(value: Any, depth: int = _DEPTH_MAX) -> bool:
    """Returns whether a value is a type or a module that costs a worker no import of another package."""
    if value is dataclasses.KW_ONLY:
        return True
    if isinstance(value, types.ModuleType):
        return _modules.goes_by_name(value.__name__) and _is_at_hand(value.__name__)
    kind = type(value)
    if kind.__module__ in _TYPING:
        parts = getattr(value, "__args__", ()) if depth else ()
        is_known = all(_is_type(part, depth - 1) for part in parts if hasattr(part, "__module__"))
        return is_known and kind.__name__ != "TypeAliasType"
    return isinstance(value, type) and _is_at_hand(value.__module__)


def _is_at_hand(module: str) -> bool:
    """Returns whether the contents of a module are sent by value, or are of the standard library."""
    is_standard = module.partition(".")[0] in sys.stdlib_module_names
    return is_standard or not _modules.goes_by_name(module)
