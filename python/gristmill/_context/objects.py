"""Needs of functions that exist as objects: lambdas, closures, functions of notebooks and prompts.

No source is needed. A function that is sent to workers by value carries the objects that it uses, so the scan includes
them. A function that is sent by name needs its module; this scan does not look into that module.
"""

from __future__ import annotations

import dataclasses
import functools
import sys
import types
from collections import deque

from gristmill._context import bytecode
from gristmill._context.imports import Import, Scan
from gristmill._functions import importable_name

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from typing import Any

#: Maximum number of items scanned in one container: long containers hold data of one kind, tables of functions are
#: short.
_ITEMS_MAX = 1000
#: Maximum number of objects that one scan looks at.
_OBJECTS_MAX = 100_000
#: Types whose objects need no module.
_PLAIN = (type(None), bool, int, float, complex, str, bytes, bytearray, range, types.EllipsisType)


@dataclasses.dataclass
class Reached:
    """Needs that were found from some functions."""

    scan: Scan = dataclasses.field(default_factory=Scan)
    #: Functions and classes that are sent by value.
    by_value: list[str] = dataclasses.field(default_factory=list)


def of_objects(objects: Iterable[Any]) -> Reached:
    """Scans functions or other objects that are sent to workers, with everything that they carry."""
    walk = _Walk()
    for one in objects:
        walk.waiting.append((one, f"{_name_of(one)} itself"))
    walk.run()
    return walk.reached


class _Walk:
    """A walk over objects that visits each object once."""

    def __init__(self) -> None:
        self.reached = Reached()
        #: Objects still to scan, each with the reason why it is needed.
        self.waiting: deque[tuple[Any, str]] = deque()
        #: Visited objects by identity. The walk keeps them alive, so that no identity is used twice.
        self._seen: dict[int, Any] = {}

    def run(self) -> None:
        """Scans all waiting objects, and the objects that they lead to."""
        while self.waiting:
            one, why = self.waiting.popleft()
            if id(one) in self._seen or isinstance(one, _PLAIN):
                continue
            if len(self._seen) == _OBJECTS_MAX:
                text = (
                    f"more than {_OBJECTS_MAX:,} objects are sent with the function: {why} "
                    "and later ones were not examined"
                )
                self.reached.scan.notes.append(text)
                return
            self._seen[id(one)] = one
            self._look(one, why)

    def _look(self, one: Any, why: str) -> None:
        name = None if isinstance(one, types.ModuleType) else importable_name(one)
        if isinstance(one, types.ModuleType):
            self._need(one.__name__, why)
        elif name is not None:
            self._need(name[0], why)
        elif isinstance(one, types.FunctionType):
            self._function(one)
        elif isinstance(one, type) and _is_by_value(one):
            self._class(one)
        elif isinstance(one, type):
            self._need(one.__module__, why)
        elif isinstance(one, types.CodeType):
            self._code(one, {}, one.co_name)
        else:
            self._value(one, why)

    def _function(self, function: types.FunctionType) -> None:
        label = f"function {_name_of(function)}"
        if function.__module__ not in sys.stdlib_module_names:
            self.reached.by_value.append(_name_of(function))
        self._code(function.__code__, function.__globals__, label)
        defaults = [*(function.__defaults__ or ()), *(function.__kwdefaults__ or {}).values()]
        self._follow(defaults, f"a default of {label}")
        for name, cell in zip(
            function.__code__.co_freevars, function.__closure__ or (), strict=True
        ):
            try:
                self._follow([cell.cell_contents], f"{name!r} around {label}")
            except ValueError:  # not filled yet
                continue
        self._follow(function.__dict__.values(), f"an attribute of {label}")

    def _code(self, code: types.CodeType, known: dict[str, Any], label: str) -> None:
        package = known.get("__package__") or ""
        self.reached.scan.extend(bytecode.of_code(code, label, package))
        for names in bytecode.global_chains(code):
            if names[0] in known:
                value, used = _deepest_module(known[names[0]], names)
                self._follow([value], f"global {used!r} of {label}")

    def _class(self, one: type) -> None:
        label = f"class {_name_of(one)}"
        self.reached.by_value.append(_name_of(one))
        self._follow(one.__bases__, f"a base of {label}")
        self._follow([type(one)], f"the metaclass of {label}")
        for name, value in list(vars(one).items()):
            if name not in ("__dict__", "__weakref__"):
                self._follow([value], f"{name!r} of {label}")

    def _value(self, one: Any, why: str) -> None:
        """Scans an instance: its class, and the objects that it holds."""
        kind = type(one)
        self._follow([kind], f"an object of {kind.__qualname__}, which is {why}")
        self._follow(_parts_of(one), why)
        if isinstance(held := getattr(one, "__dict__", None), dict):
            self._follow(held.values(), why)

    def _follow(self, values: Iterable[Any], why: str) -> None:
        self.waiting += [(value, why) for value in values]

    def _need(self, module: str, why: str) -> None:
        if module != "builtins":
            self.reached.scan.imports.append(Import(module, why))


def _parts_of(one: Any) -> Iterator[Any]:
    """Yields the objects inside wrappers and containers of the standard library."""
    if isinstance(one, types.MethodType):
        yield from (one.__func__, one.__self__)
    elif isinstance(one, functools.partial):
        yield from (one.func, *one.args, *one.keywords.values())
    elif isinstance(one, (staticmethod, classmethod)):
        yield one.__func__
    elif isinstance(one, property):
        yield from (one.fget, one.fset, one.fdel)
    elif isinstance(one, functools.cached_property):
        yield one.func
    elif isinstance(one, dict):
        for key, value in list(one.items())[:_ITEMS_MAX]:
            yield from (key, value)
    elif isinstance(one, (list, tuple, set, frozenset)):
        yield from list(one)[:_ITEMS_MAX]


def _is_by_value(one: type) -> bool:
    """Returns whether a class that cannot be imported was defined in Python, and not in a compiled module."""
    module = sys.modules.get(one.__module__)
    return module is None or one.__module__ == "__main__" or "<locals>" in one.__qualname__


def _deepest_module(value: Any, names: tuple[str, ...]) -> tuple[Any, str]:
    """Follows ``a.b.c`` while it leads from module to module: ``google`` alone would name no code."""
    used = names[0]
    for name in names[1:]:
        inner = getattr(value, name, None) if isinstance(value, types.ModuleType) else None
        if not isinstance(inner, types.ModuleType) or inner.__name__ != f"{value.__name__}.{name}":
            break
        value, used = inner, f"{used}.{name}"
    return value, used


def _name_of(one: Any) -> str:
    name: str | None = getattr(one, "__qualname__", None)
    call: Callable[..., Any] | None = getattr(one, "func", None)
    return name or getattr(call, "__qualname__", None) or type(one).__qualname__
