"""Locations of modules, found without importing them.

A package may span several folders, and its parts may belong to different distributions. The finder therefore looks up a
module level by level, and every file on the way counts. A module that a parent creates while it is imported is
represented by the file of that parent.
"""

from __future__ import annotations

import contextlib
import dataclasses
import importlib.machinery
import os
import pkgutil
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from importlib.machinery import ModuleSpec
    from typing import Any

_SOURCE, _COMPILED = ".py", tuple(importlib.machinery.EXTENSION_SUFFIXES)
#: Finders of the interpreter. This module does their work level by level.
_STANDARD_FINDERS = ("BuiltinImporter", "FrozenImporter", "PathFinder")


@dataclasses.dataclass(frozen=True)
class ModuleLocation:
    """Location of one module."""

    #: Deepest name that has a file: ``six`` for ``six.moves.urllib``.
    module: str
    #: Files from the outermost package down to the module; none for modules that are built into the interpreter.
    files: tuple[str, ...]
    is_package: bool = False
    #: True for a set of folders that may contain packages, without a file of its own.
    is_namespace: bool = False

    @property
    def file(self) -> str | None:
        """File of the module itself."""
        return self.files[-1] if self.files else None

    @property
    def package(self) -> str:
        """Package that relative imports of the module start from."""
        return self.module if self.is_package else self.module.rpartition(".")[0]

    @property
    def is_source(self) -> bool:
        """True if the module has source code to scan."""
        return bool(self.files) and self.files[-1].endswith(_SOURCE)

    @property
    def is_compiled(self) -> bool:
        """True if the module is machine code, for one version of Python and one kind of machine."""
        return bool(self.files) and self.files[-1].endswith(_COMPILED)


class Finder:
    """A finder that finds modules on a path as the interpreter would."""

    def __init__(self, path: Sequence[str] | None = None) -> None:
        self.path = [os.path.abspath(entry) for entry in (sys.path if path is None else path)]
        self._specs: dict[str, ModuleSpec | None] = {}

    def find(self, module: str) -> ModuleLocation | None:
        """Finds a module; returns ``None`` if the module, or a package around it, does not exist."""
        location, folders = ModuleLocation("", ()), self.path
        parts = module.split(".")
        for count in range(1, len(parts) + 1):
            spec = self._spec(".".join(parts[:count]), folders)
            if spec is None:
                # A namespace package has no code that could create the submodule; any other module might.
                return location if location.files else None
            location = _next(location, spec)
            if not location.is_package:
                break
            folders = list(spec.submodule_search_locations or ())
        return location

    def find_within(self, module: str, name: str) -> ModuleLocation | None:
        """Finds the module of that name in a package; returns ``None`` if the name is no module."""
        whole = f"{module}.{name}"
        location = self.find(whole)
        return location if location is not None and location.module == whole else None

    def _spec(self, name: str, folders: list[str]) -> ModuleSpec | None:
        if name not in self._specs:
            self._specs[name] = self._look(name, folders)
        return self._specs[name]

    def _look(self, name: str, folders: list[str]) -> ModuleSpec | None:
        if "." not in name:
            if name in sys.builtin_module_names:
                return importlib.machinery.BuiltinImporter.find_spec(name)
            frozen = importlib.machinery.FrozenImporter.find_spec(name)
            if frozen is not None and frozen.origin == "frozen" and not _is_on(folders, name):
                return frozen
        spec = _on_path(name, folders)
        if spec is None or spec.loader is None:
            other = _of_others(name, None if folders is self.path else folders)
            return other or spec
        return spec


def _next(outer: ModuleLocation, spec: ModuleSpec) -> ModuleLocation:
    """Returns the location of a module in the package that was found before."""
    is_package = spec.submodule_search_locations is not None
    has_file = spec.loader is not None and spec.has_location and spec.origin is not None
    files = (*outer.files, str(spec.origin)) if has_file else outer.files
    return ModuleLocation(spec.name, files, is_package, is_package and spec.loader is None)


def _is_on(folders: Iterable[str], name: str) -> bool:
    """Returns whether a frozen module also has a source file, which is the more useful location."""
    spec = _on_path(name, folders)
    return spec is not None and spec.loader is not None


def _on_path(name: str, folders: Iterable[str]) -> ModuleSpec | None:
    """Returns the first module of that name in the folders, else its namespace package, else ``None``."""
    portions: list[str] = []
    for folder in folders:
        with contextlib.suppress(OSError, ImportError):
            finder = pkgutil.get_importer(folder)
            spec = finder.find_spec(name) if finder is not None else None
            if spec is None:
                continue
            if spec.loader is not None:
                return spec
            portions += spec.submodule_search_locations or ()
    if not portions:
        return None
    spec = importlib.machinery.ModuleSpec(name, None, is_package=True)
    spec.submodule_search_locations = portions
    return spec


def _of_others(name: str, folders: list[str] | None) -> ModuleSpec | None:
    """Returns the answer of other finders, such as those of editable installations."""
    for finder in _other_finders():
        spec: ModuleSpec | None = None
        with contextlib.suppress(Exception):  # third-party finders may raise anything
            spec = finder.find_spec(name, folders)
        if spec is not None and spec.loader is not None:
            return spec
    return None


def _other_finders() -> Iterator[Any]:
    for finder in sys.meta_path:
        name = finder.__name__ if isinstance(finder, type) else type(finder).__name__
        if name not in _STANDARD_FINDERS and hasattr(finder, "find_spec"):
            yield finder
