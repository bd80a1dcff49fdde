"""Where modules are, found without importing any of them.

Packages may lie in several folders, and parts of one in different distributions, so a module is looked up level by
level and every file on the way counts. A module that makes others while it is imported is taken for their file.
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
#: Those of the interpreter, whose work is done here level by level.
_STANDARD_FINDERS = ("BuiltinImporter", "FrozenImporter", "PathFinder")


@dataclasses.dataclass(frozen=True)
class Place:
    """Where one module is."""

    #: As deep as there are files: of ``six.moves.urllib`` it is ``six``.
    module: str
    #: The files from the outermost package down to it; none for what is built into the interpreter.
    files: tuple[str, ...]
    is_package: bool = False
    #: Folders that packages may be in, and nothing else: no file is behind the name itself.
    is_namespace: bool = False

    @property
    def file(self) -> str | None:
        """Its own file."""
        return self.files[-1] if self.files else None

    @property
    def package(self) -> str:
        """What its relative imports are relative to."""
        return self.module if self.is_package else self.module.rpartition(".")[0]

    @property
    def is_source(self) -> bool:
        """Whether there is source to look at."""
        return bool(self.files) and self.files[-1].endswith(_SOURCE)

    @property
    def is_compiled(self) -> bool:
        """Whether it is machine code, for one version of Python and one kind of machine."""
        return bool(self.files) and self.files[-1].endswith(_COMPILED)


class Finder:
    """Finds modules on a path as the interpreter would."""

    def __init__(self, path: Sequence[str] | None = None) -> None:
        self.path = [os.path.abspath(entry) for entry in (sys.path if path is None else path)]
        self._specs: dict[str, ModuleSpec | None] = {}

    def find(self, module: str) -> Place | None:
        """Finds a module; ``None`` if it, or a package around it, is nowhere."""
        place, folders = Place("", ()), self.path
        parts = module.split(".")
        for count in range(1, len(parts) + 1):
            spec = self._spec(".".join(parts[:count]), folders)
            if spec is None:
                # A namespace holds nothing that could make the rest; any other module might.
                return place if place.files else None
            place = _next(place, spec)
            if not place.is_package:
                break
            folders = list(spec.submodule_search_locations or ())
        return place

    def find_within(self, module: str, name: str) -> Place | None:
        """Finds the module of that name in a package; ``None`` if the name is of something else."""
        whole = f"{module}.{name}"
        place = self.find(whole)
        return place if place is not None and place.module == whole else None

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


def _next(outer: Place, spec: ModuleSpec) -> Place:
    """The place of a module in the package that was found before."""
    is_package = spec.submodule_search_locations is not None
    has_file = spec.loader is not None and spec.has_location and spec.origin is not None
    files = (*outer.files, str(spec.origin)) if has_file else outer.files
    return Place(spec.name, files, is_package, is_package and spec.loader is None)


def _is_on(folders: Iterable[str], name: str) -> bool:
    """Whether a module that the interpreter holds a frozen copy of has a file, too, which is what a reader wants."""
    spec = _on_path(name, folders)
    return spec is not None and spec.loader is not None


def _on_path(name: str, folders: Iterable[str]) -> ModuleSpec | None:
    """The first of that name in the folders; the folders of a namespace if there is no other."""
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
    """What finders of others say, such as those of editable installations."""
    for finder in _other_finders():
        spec: ModuleSpec | None = None
        with contextlib.suppress(Exception):  # it is not ours
            spec = finder.find_spec(name, folders)
        if spec is not None and spec.loader is not None:
            return spec
    return None


def _other_finders() -> Iterator[Any]:
    for finder in sys.meta_path:
        name = finder.__name__ if isinstance(finder, type) else type(finder).__name__
        if name not in _STANDARD_FINDERS and hasattr(finder, "find_spec"):
            yield finder
