"""Modules that workers can import. The contents of all other modules go by value.

A worker has the program's ``sys.path``, and what every interpreter of the environment has. So it can import a module if
Python's own search of paths finds it where the program has it from. It cannot import modules that the program made by
itself (modules without a file, ``__mp_main__``), loaded from a folder that is not on the path, loaded by a loader that
only the program has (that of notebooks), or loaded from a file that is gone.
"""

from __future__ import annotations

import os
import sys
from importlib.machinery import BuiltinImporter, FrozenImporter, PathFinder

from gristmill._when_imported import when_imported

TYPE_CHECKING = False
if TYPE_CHECKING:
    import types
    from importlib.machinery import ModuleSpec
    from typing import Any

#: The folders of installed packages, and that of the standard library. Some frozen programs have none.
INSTALLED = ("site-packages", "dist-packages")
_STANDARD = (os.path.dirname(os.__file__) + os.sep,) if hasattr(os, "__file__") else ()

#: Modules whose loader compiles other code than Python does, from a source that may have changed since. Nothing shows
#: whether a worker would get the same code.
unverified: set[str] = set()
#: Cached results by module name, with the module's specification.
_known: dict[str, tuple[ModuleSpec, bool]] = {}


def is_installed(module: types.ModuleType) -> bool:
    """Returns whether a module belongs to the standard library or to an installed package."""
    return _is_installed(getattr(module, "__spec__", None))


def _is_installed(spec: ModuleSpec | None) -> bool:
    origin = getattr(spec, "origin", None)
    if spec is not None and str(spec.name).partition(".")[0] == "gristmill":
        return True
    if origin in ("built-in", "frozen"):
        return True
    if not isinstance(origin, str):
        return False
    folders = origin.split(os.sep)
    return origin.startswith(_STANDARD) or any(one in folders for one in INSTALLED)


def is_of_installed_package(name: object) -> bool:
    """Returns whether a name is that of a module within a loaded installed package."""
    if not isinstance(name, str) or "." not in name:
        return False
    package = sys.modules.get(name.partition(".")[0])
    return package is not None and is_installed(package)


def goes_by_name(name: object) -> bool:
    """Returns whether a worker finds the contents of a module with this name by their names."""
    if not isinstance(name, str):
        return False
    module = sys.modules.get(name)
    if module is None or name == "__main__" or module is sys.modules.get("__main__"):
        return False
    if name in unverified:
        return False
    return not _is_registered(name) and is_importable(name, module)


def is_own(name: object) -> bool:
    """Returns whether a module is one of the program's own that workers import."""
    module = sys.modules.get(name) if isinstance(name, str) else None
    if module is None or not isinstance(module, type(sys)) or name == "__main__":
        return False
    return not is_installed(module) and goes_by_name(name)


def is_own_spec(spec: ModuleSpec | None) -> bool:
    """Returns whether a module that was found and is not loaded is the program's own and has its source."""
    if spec is None or not isinstance(spec.origin, str) or not spec.origin.endswith(".py"):
        return False
    return not _is_installed(spec) and not _is_registered(spec.name)


def find(name: str) -> ModuleSpec | None:
    """Finds a module that is not loaded, without loading the packages that it is in."""
    parent = name.rpartition(".")[0]
    path = None
    if parent:
        package = sys.modules.get(parent)
        if package is not None:
            path = getattr(package, "__path__", None)
        else:
            path = getattr(find(parent), "submodule_search_locations", None)
        if path is None:
            return None
    try:
        return PathFinder.find_spec(name, path)
    except Exception:
        return None


def is_importable(name: str, module: types.ModuleType) -> bool:
    """Returns whether a worker that imports a module by its name gets the program's module."""
    spec = getattr(module, "__spec__", None)
    if spec is None:
        # Extension modules create modules inside themselves.
        return is_of_installed_package(name)
    known = _known.get(name)
    if known is None or known[0] is not spec:
        known = _known[name] = (spec, is_installed(module) or _is_found(name, spec))
    is_there = known[1]
    if is_there and spec.has_location and not is_installed(module):
        return os.path.exists(spec.origin or "") or ".zip" in (spec.origin or "")
    return is_there


def _is_found(name: str, spec: ModuleSpec) -> bool:
    """Returns whether the interpreter's own finders find a module at its origin."""
    if spec.loader is None and not spec.submodule_search_locations:
        return False
    parent, _, _ = name.rpartition(".")
    path = None
    if parent:
        package = sys.modules.get(parent)
        if package is None or not is_importable(parent, package):
            return False
        path = getattr(package, "__path__", None)
    for finder in sys.meta_path:
        if finder is not PathFinder and not _is_everywhere(finder):
            continue
        try:
            found = finder.find_spec(name, path)
        except Exception:
            continue
        if found is not None:
            return _is_same_place(found, spec)
    return False


def _is_everywhere(finder: Any) -> bool:
    """Returns whether the environment added a finder, as it does for packages that are installed to be edited."""
    if finder in (BuiltinImporter, FrozenImporter):
        return True
    kind = finder if isinstance(finder, type) else type(finder)
    if kind.__module__.startswith("__editable__"):
        return True
    module = sys.modules.get(kind.__module__)
    # Pytest's finder rewrites what Python's own finds, too.
    return module is not None and is_installed(module) and not kind.__module__.startswith("_pytest")


def _is_same_place(found: ModuleSpec, spec: ModuleSpec) -> bool:
    if found.origin is None or spec.origin is None:
        return found.origin == spec.origin and bool(found.submodule_search_locations)
    return os.path.realpath(found.origin) == os.path.realpath(spec.origin)


def _is_registered(name: str) -> bool:
    """Returns whether cloudpickle was told to send a module, or a package that contains it, by value."""
    cloudpickle = sys.modules.get("cloudpickle")
    registry = cloudpickle.list_registry_pickle_by_value() if cloudpickle else ()
    if not registry:
        return False
    parts = name.split(".")
    return any(".".join(parts[:count]) in registry for count in range(1, len(parts) + 1))


class _Registry(set[str]):
    """Modules that cloudpickle was told to send by value. A change makes the engine describe every function anew."""

    def add(self, name: str) -> None:
        super().add(name)
        _forget_definitions()

    def remove(self, name: str) -> None:
        super().remove(name)
        _forget_definitions()

    def copy(self) -> set[str]:
        """Returns a plain set."""
        return set(self)


def _forget_definitions() -> None:
    from gristmill import _native

    _native.modules_changed()


def _watch_registry(cloudpickle: Any) -> None:
    cloudpickle._PICKLE_BY_VALUE_MODULES = _Registry(cloudpickle._PICKLE_BY_VALUE_MODULES)


when_imported("cloudpickle.cloudpickle", _watch_registry)
