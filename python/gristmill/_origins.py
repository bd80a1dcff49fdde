"""Search for the program's own modules that a callable, or a value sent with it, refers to."""

from __future__ import annotations

import functools
import sys
import types
from itertools import islice

from gristmill import _functions, _imports, _modules

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from typing import Any

#: The largest number of values of one callable that are examined.
_VALUES_MAX = 500
#: The largest number of these that are no functions, classes, methods or modules. The limit is low because each call of
#: a bound method examines them again.
_DATA_MAX = 64
#: The largest number of items of one container, or of attributes of one object, that are examined.
_ITEMS_MAX = 16

#: Types whose values name no module.
_PLAIN = frozenset(
    (
        *(type(None), bool, int, float, complex, str, bytes, range, type(...)),
        *(types.GetSetDescriptorType, types.MemberDescriptorType),
    )
)
_CODE = (types.FunctionType, types.MethodType, types.ModuleType, type)
_BUILT_IN = ("builtins", "types", "typing", "abc")
_CONTAINERS = frozenset((list, tuple, set, frozenset))


def names_of(value: Any) -> Iterator[str]:
    """Yields the modules named by a value that a module holds."""
    yield from _direct(value)
    if isinstance(value, types.MethodType):
        yield from _direct(value.__func__)
        yield from _direct(value.__self__)
    elif isinstance(value, functools.partial):
        yield from _direct(value.func)
    elif not isinstance(value, (types.ModuleType, type)) and type(value) not in _PLAIN:
        wrapped = _attributes(value).get("__wrapped__")
        if wrapped is not None:
            yield from _direct(wrapped)


def roots(function: Any) -> tuple[list[str], set[str]]:
    """Returns the program's own modules that a callable names, and the modules not loaded that its code imports."""
    found = _Found()
    found.add(function)
    for value in found.waiting:
        found.look_at(value)
    return list(found.own), found.missing


class _Found:
    """Search through the values that one callable leads to."""

    __slots__ = ("_data_count", "_is_there", "_met", "missing", "own", "waiting")

    def __init__(self) -> None:
        self.waiting: list[Any] = []
        #: Modules that code imports and that are not loaded.
        self.missing: set[str] = set()
        #: Modules that are the program's own.
        self.own: dict[str, None] = {}
        #: Cached answers by module: true if workers find the module's contents by name.
        self._is_there: dict[str, bool] = {}
        self._met: set[int] = set()
        self._data_count = 0

    def add(self, value: Any) -> None:
        """Queues a value for examination if it can name a module and was not met yet."""
        if type(value) in _PLAIN or id(value) in self._met or len(self._met) >= _VALUES_MAX:
            return
        if not isinstance(value, _CODE):
            if self._data_count >= _DATA_MAX:
                return
            self._data_count += 1
        self._met.add(id(value))
        # The list keeps the value alive, so no other object gets its address meanwhile.
        self.waiting.append(value)

    def _add_all(self, values: Iterable[Any]) -> None:
        for value in values:
            if type(value) not in _PLAIN:
                self.add(value)

    def _add_some(self, values: Iterable[Any]) -> None:
        try:
            some = list(islice(values, _ITEMS_MAX))
        except RuntimeError:  # changed by another thread
            return
        self._add_all(some)

    def _name(self, name: str) -> None:
        if name in self._is_there:
            return
        is_there = self._is_there[name] = _modules.goes_by_name(name)
        if is_there and not _modules.is_installed(sys.modules[name]):
            self.own[name] = None

    def _goes_by_name(self, value: types.FunctionType | type) -> bool:
        """Returns whether workers find a value by its module and name. The parts of such a value are not examined."""
        name = value.__module__
        return bool(self._is_there.get(name)) and _functions.is_found(value, name)

    def look_at(self, value: Any) -> None:
        """Records the modules that a value names, and queues its parts."""
        kind = type(value)
        if kind in _CONTAINERS:
            self._add_some(value)
            return
        if kind is dict:
            self._add_some(value)
            self._add_some(value.values())
            return
        for name in _direct(value):
            self._name(name)
        if isinstance(value, types.FunctionType):
            if not self._goes_by_name(value):
                # This function is sent by value. The values that it refers to are sent by name where possible.
                self._look_at_function(value)
        elif isinstance(value, type):
            if value.__module__ not in _BUILT_IN and not self._goes_by_name(value):
                self._add_all(value.__bases__)
                self._add_all(list(vars(value).values()))
        elif isinstance(value, types.MethodType):
            self._add_all((value.__func__, value.__self__))
        elif isinstance(value, property):
            self._add_all((value.fget, value.fset, value.fdel))
        elif isinstance(value, (classmethod, staticmethod)):
            self.add(value.__func__)
        elif not isinstance(value, types.ModuleType):
            self._look_at_instance(value)

    def _look_at_function(self, function: types.FunctionType) -> None:
        names = function.__globals__
        package = names.get("__package__")
        for code in _imports.codes(function.__code__):
            if not code.co_names:
                continue
            imports = _imports.of_code(code, package if isinstance(package, str) else "")
            for name in _imports.present(imports, self.missing, {}):
                self._name(name)
            self._add_all(names[name] for name in code.co_names if name in names)
        for cell in function.__closure__ or ():
            try:
                self.add(cell.cell_contents)
            except ValueError:  # not filled yet
                continue
        if function.__defaults__:
            self._add_all(function.__defaults__)
        if function.__kwdefaults__:
            self._add_all(list(function.__kwdefaults__.values()))
        if function.__dict__:
            self._add_some(function.__dict__.values())

    def _look_at_instance(self, value: Any) -> None:
        kind = type(value)
        if kind.__module__.partition(".")[0] == "gristmill":
            return
        if isinstance(value, functools.partial):
            self.add(value.func)
            self._add_some(value.args)
            self._add_some(value.keywords.values())
        self.add(kind)
        self._add_some(_attributes(value).values())


def _direct(value: Any) -> Iterator[str]:
    """Yields the modules that a value claims to be from."""
    names: tuple[Any, ...]
    if isinstance(value, types.ModuleType):
        names = (value.__name__,)
    elif isinstance(value, types.FunctionType):
        # A decorator's function claims the module of the function that it decorates.
        names = (value.__module__, value.__globals__.get("__name__"))
    elif isinstance(value, type):
        names = (value.__module__,)
    else:
        names = (type(value).__module__,)
        if type(value) not in _PLAIN:
            names = (*names, _attributes(value).get("__module__"))
    return (name for name in names if isinstance(name, str))


def _attributes(value: Any) -> dict[str, Any]:
    """Returns the stored attributes of an object, without computed ones."""
    try:
        attributes = object.__getattribute__(value, "__dict__")
    except (AttributeError, TypeError):
        return {}
    return attributes if isinstance(attributes, dict) else {}
