"""Resolution of imports to distributions, files of the user, or nothing.

The resolver follows the user's own modules: what they import is needed too.
"""

from __future__ import annotations

import dataclasses
import functools
import os
import sys
import sysconfig

from gristmill._context import imports, recorded
from gristmill._context.distributions import Distribution, Installed
from gristmill._context.imports import NEVER, REQUIRED, Import, Scan
from gristmill._context.modules import Finder, ModuleLocation

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

#: Kinds of modules: of the interpreter; of a distribution; of the user; of Gristmill if it is not installed; in a
#: folder of packages without a distribution; a namespace package only; not found; not searched for.
STANDARD, INSTALLED, LOCAL, OURS, UNOWNED, NAMESPACE, NOWHERE, UNNEEDED = (
    "standard library",
    "installed",
    "local",
    "gristmill",
    "unowned",
    "namespace",
    "not found",
    "not needed",
)


@dataclasses.dataclass
class Module:
    """An imported module and the result of its resolution."""

    name: str
    kind: str
    file: str | None = None
    #: Distributions that contain the module, with their versions.
    distributions: dict[str, str] = dataclasses.field(default_factory=dict)
    need: str = REQUIRED
    #: Locations of the imports.
    why: list[str] = dataclasses.field(default_factory=list)


@dataclasses.dataclass(frozen=True)
class UserFile:
    """A code file of the user."""

    path: str
    size: int
    #: ``by value`` or ``as a file``.
    how: str
    why: str
    #: Name of the module.
    module: str = "__main__"


@dataclasses.dataclass(frozen=True)
class Missing:
    """A needed item that was not found."""

    #: Kind of the item: ``import``, ``distribution`` or ``source``.
    step: str
    name: str
    why: str
    #: Advice to the user.
    advice: str


class Resolver:
    """A resolver of imports on one path that collects what they need."""

    def __init__(self, path: Sequence[str]) -> None:
        self.finder = Finder(path)
        self.modules: dict[str, Module] = {}
        #: Needed distributions by key.
        self.distributions: dict[str, Distribution] = {}
        #: Files of the user by path.
        self.files: dict[str, UserFile] = {}
        self.missing: list[Missing] = []
        self.notes: list[str] = []

    @functools.cached_property
    def installed(self) -> Installed:
        """Distributions on the path, read on first use."""
        return Installed(self.finder.path, sys.prefix)

    def add_main(self, program: str, size: int) -> None:
        """Adds the program itself, whose functions are sent by value."""
        path = os.path.abspath(program)
        self.files[path] = UserFile(path, size, "by value", "the program")

    def add(self, scan: Scan) -> None:
        """Adds the result of a scan, and everything that follows from it."""
        self.notes += scan.notes
        for one in scan.imports:
            self.add_one(one)

    def add_one(self, one: Import) -> None:
        """Adds one import, and everything that follows from it."""
        stands_in = any(self.finder.find(other) is not None for other in one.unless)
        if one.need == NEVER or stands_in:
            self._note_module(Module(one.module, UNNEEDED, need=NEVER), one)
            return
        location = self.finder.find(one.module)
        if location is None:
            self._add_missing(one)
            return
        within = [found for found in (self._within(one, name) for name in one.names) if found]
        if location.is_namespace:
            self._add_namespace(one, location, within)
        else:
            module = self.module(one.module, location, one.need)
            self._note_module(module, one)
            if location.module != one.module and module.kind != STANDARD:
                text = (
                    f"no file of {one.module} is found: {location.module} creates it at run time, "
                    "or it does not exist"
                )
                self.notes.append(f"{one.why}: {text}")
            self._take(location, one)
        for inner in within:
            self._take(inner, one)

    def module(self, name: str, location: ModuleLocation, need: str = REQUIRED) -> Module:
        """Returns a module with its kind and its distributions."""
        owners = {owner.name: owner.version for owner in self.owners(location)}
        if _is_standard(location, self):
            kind = STANDARD
        elif owners:
            kind = INSTALLED
        elif _is_ours(name):
            kind = OURS
        else:
            kind = UNOWNED if self.installed.is_in_site(location.file or "") else LOCAL
        return Module(name, kind, location.file, owners, need)

    def owners(self, location: ModuleLocation) -> list[Distribution]:
        """Returns the distributions that contain a module or the packages around it."""
        if _is_standard(location, self):
            return []
        found = {
            owner.key: owner for file in location.files for owner in self.installed.owners(file)
        }
        return list(found.values())

    def _within(self, one: Import, name: str) -> ModuleLocation | None:
        return self.finder.find_within(one.module, name)

    def _add_namespace(
        self, one: Import, location: ModuleLocation, within: list[ModuleLocation]
    ) -> None:
        """Adds an import such as ``from google import protobuf``: each name of a namespace package must be a module."""
        there = {inner.module for inner in within}
        for inner in within:
            self._note_module(self.module(inner.module, inner, one.need), one)
        for name in one.names:
            if f"{one.module}.{name}" not in there:
                self._add_missing(dataclasses.replace(one, module=f"{one.module}.{name}"))
        if not one.names:
            self._note_module(Module(location.module, NAMESPACE, need=one.need), one)

    def _take(self, location: ModuleLocation, one: Import) -> None:
        """Adds the distributions of a module, or the module itself and its imports if it is the user's."""
        if location.is_namespace or _is_standard(location, self):
            return
        owners = self.owners(location)
        self.distributions.update((owner.key, owner) for owner in owners)
        if owners or _is_ours(location.module):
            return
        if self.installed.is_in_site(location.file or ""):
            advice = f"no distribution lists {location.file}: install it with pip, uv or conda"
            self._miss(Missing("distribution", location.module, one.why, advice))
            return
        for outer in self._outward(location.module):
            if outer.file is not None and outer.file not in self.files:
                self._follow(outer, outer.file, one.why)

    def _outward(self, module: str) -> Iterator[ModuleLocation]:
        """Yields a module and the packages around it, from the outermost."""
        names = module.split(".")
        for count in range(1, len(names) + 1):
            location = self.finder.find(".".join(names[:count]))
            if location is not None and not location.is_namespace:
                yield location

    def _follow(self, location: ModuleLocation, file: str, why: str) -> None:
        """Adds a file of the user and scans its code."""
        self.files[file] = UserFile(
            file, recorded.size_of(file) or 0, "as a file", why, location.module
        )
        if not location.is_source:
            if location.is_compiled:
                self.notes.append(f"{file} is compiled: for this Python and this kind of machine")
            return
        try:
            with open(file, "rb") as opened:
                scan = imports.of_source(
                    opened.read(), _short_name(location, file), location.package
                )
        except (OSError, SyntaxError, ValueError) as error:
            advice = f"{type(error).__name__}: {error}"
            self._miss(Missing("source", location.module, why, advice))
        else:
            self.add(scan)

    def _add_missing(self, one: Import) -> None:
        self._note_module(Module(one.module, NOWHERE, need=one.need), one)
        if one.need != REQUIRED:
            return
        top = one.module.partition(".")[0]
        advice = "not on sys.path: install the distribution that contains it, or add its folder to PYTHONPATH"
        if top in sys.stdlib_module_names:
            advice = "of the standard library, and this Python was built without it"
        self._miss(Missing("import", one.module, one.why, advice))

    def _miss(self, one: Missing) -> None:
        if all((other.step, other.name) != (one.step, one.name) for other in self.missing):
            self.missing.append(one)

    def _note_module(self, module: Module, one: Import) -> None:
        """Records a module, or another reason for it; the strongest need counts."""
        known = self.modules.get(module.name)
        if known is None or known.need == NEVER != module.need:
            known = self.modules[module.name] = module
        elif module.need == NEVER != known.need:
            return
        if module.need == REQUIRED:
            known.need = REQUIRED
        if one.why not in known.why:
            known.why.append(one.why)


def _is_ours(module: str) -> bool:
    """Returns whether a module belongs to Gristmill, which every node has."""
    return module.partition(".")[0] == __name__.partition(".")[0]


def _short_name(location: ModuleLocation, file: str) -> str:
    """Returns the path of a file from its package on, because every package has an ``__init__.py``."""
    depth = len(location.module.split(".")) + location.is_package
    return "/".join(file.split(os.sep)[-depth:])


@functools.cache
def _standard_folders() -> tuple[str, ...]:
    found = {sysconfig.get_path(name) for name in ("stdlib", "platstdlib")}
    return tuple(folder + os.sep for folder in found)


def _is_standard(location: ModuleLocation, resolver: Resolver) -> bool:
    """Returns whether a module belongs to the interpreter. Installed packages may be below the standard library."""
    if not location.files:
        return not location.is_namespace
    file = location.files[-1]
    return file.startswith(_standard_folders()) and not resolver.installed.is_in_site(file)
