"""The program's own modules that a module names, those that these name, and so on.

A module names what it imports by its source, also in its functions and classes, and the modules of the values that it
holds. Installed packages and the standard library are excluded.
"""

from __future__ import annotations

import sys

from gristmill import _imports, _modules, _origins, _sources

TYPE_CHECKING = False
if TYPE_CHECKING:
    import types
    from collections.abc import Iterable, Iterator
    from typing import Any

#: The largest number of modules that are followed from one module.
_MODULES_MAX = 500
#: The largest number of modules whose closures are remembered.
_CLOSURES_MAX = 256

#: Names in modules, by module.
_named: dict[str, _Named] = {}
#: Closures by module.
_closures: dict[str, Closure] = {}
#: Answers by module: true if a module that was found and is not loaded is the program's own.
_absent: dict[str, bool] = {}


class _Named:
    """The modules that a module names, as it was loaded with one specification."""

    __slots__ = ("at_load", "in_calls", "spec")

    def __init__(self, name: str) -> None:
        module = sys.modules.get(name)
        #: The specification, which differs after the module was loaded anew.
        self.spec: Any = getattr(module, "__spec__", None)
        at_load, in_calls = _statements(module, self.spec) if module else ((), ())
        held: dict[str, None] = {}
        for value in list(vars(module).values()) if module else ():
            held.update(dict.fromkeys(_origins.names_of(value)))
        #: Imports that ran when the module was loaded, and modules of the values that it holds.
        self.at_load: tuple[_imports.Import, ...] = (
            *at_load,
            *((one, ()) for one in held if one != name),
        )
        #: Imports of its functions, which run when the functions are called.
        self.in_calls: tuple[_imports.Import, ...] = in_calls


def _statements(
    module: types.ModuleType, spec: Any
) -> tuple[tuple[_imports.Import, ...], tuple[_imports.Import, ...]]:
    """Returns the imports in the source of a module."""
    try:
        if _sources.is_rewritten(module):
            code = compile(_sources.read(spec) or b"", spec.origin, "exec", dont_inherit=True)
        else:
            # The loader takes the code from the file of bytecode, if there is one.
            code = spec.loader.get_code(spec.name)
    except Exception:
        return (), ()
    return _imports.of_module(code, spec.parent or "") if code else ((), ())


def _named_by(name: str) -> _Named:
    known = _named.get(name)
    if known is None or known.spec is not getattr(sys.modules.get(name), "__spec__", None):
        known = _named[name] = _Named(name)
    return known


class Closure:
    """The program's own modules that a module names, those that these name, and so on, itself included."""

    __slots__ = ("_missing", "_specs", "absent", "checks", "names")

    def __init__(self, name: str) -> None:
        missing: set[str] = set()
        own: dict[str, bool] = {}
        at_load: dict[str, list[str]] = {}
        in_all: dict[str, list[str]] = {}
        waiting = [name]
        met = {name}
        for current in waiting:
            named = _named_by(current)
            at_load[current] = list(_imports.present(named.at_load, missing, own))
            in_all[current] = [*at_load[current], *_imports.present(named.in_calls, missing, own)]
            for one in in_all[current]:
                if one not in met and len(met) < _MODULES_MAX:
                    met.add(one)
                    waiting.append(one)
        self._missing = frozenset(missing)
        #: Modules of the program's own that are not loaded yet.
        self.absent = [one for one in sorted(missing) if is_absent(one)]
        self._specs = [(one, _named[one].spec) for one in waiting]
        #: Names in the order of dependencies: modules behind those that they need when loaded, then behind those that
        #: they import in calls.
        self.names = list(_sorted(_sorted(waiting, in_all), at_load))
        #: Each module with the hash of its source, once these were requested.
        self.checks: list[tuple[str, bytes]] | None = None

    def is_right(self) -> bool:
        """Returns whether no module of the closure was loaded, or loaded anew, since it was made."""
        modules = sys.modules
        for name, spec in self._specs:
            if getattr(modules.get(name), "__spec__", None) is not spec:
                return False
        return modules.keys().isdisjoint(self._missing)


def _sorted(names: Iterable[str], behind: dict[str, list[str]]) -> Iterator[str]:
    """Yields modules behind those in ``behind``, except in a cycle, and otherwise in the given order."""
    names = list(names)
    left = set(names)
    for name in names:
        if name not in left:
            continue
        left.remove(name)
        waiting = [(name, iter(behind[name]))]
        while waiting:
            current, named = waiting[-1]
            following = next((one for one in named if one in left), None)
            if following is None:
                waiting.pop()
                yield current
            else:
                left.remove(following)
                waiting.append((following, iter(behind[following])))


def closure_of(name: str) -> Closure:
    """Returns the current closure of a module."""
    known = _closures.get(name)
    if known is None or not known.is_right():
        if len(_closures) >= _CLOSURES_MAX:
            _closures.clear()
            _absent.clear()
        known = _closures[name] = Closure(name)
    return known


def is_absent(name: str) -> bool:
    """Returns whether a module that is not loaded is the program's own."""
    known = _absent.get(name)
    if known is None:
        spec = _modules.find(name)
        if spec is None:
            return False  # it may exist later
        known = _absent[name] = _modules.is_own_spec(spec)
    return known
