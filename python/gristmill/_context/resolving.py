"""From imports to what has to be there for them: distributions, files of the user, or nothing.

The user's own modules are followed into: what they import is needed, too.
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
from gristmill._context.modules import Finder, Place

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

#: Kinds of modules: the interpreter's own; of a distribution; the user's; Gristmill's, where it is not installed;
#: installed without a trace of by whom; a folder and no more; nowhere; not looked for.
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
    """A module that is imported, and what it was resolved to."""

    name: str
    kind: str
    file: str | None = None
    #: The distributions that it belongs to, each with its version.
    distributions: dict[str, str] = dataclasses.field(default_factory=dict)
    need: str = REQUIRED
    #: Where it is imported.
    why: list[str] = dataclasses.field(default_factory=list)


@dataclasses.dataclass(frozen=True)
class UserFile:
    """A file of code that is the user's own."""

    path: str
    size: int
    #: ``by value`` or ``as a file``.
    how: str
    why: str
    #: The module that it is.
    module: str = "__main__"


@dataclasses.dataclass(frozen=True)
class Missing:
    """Something that is needed and was not found."""

    #: What was being done: ``import``, ``distribution`` or ``source``.
    step: str
    name: str
    why: str
    #: What to do.
    advice: str


class Resolver:
    """Resolves imports on one path, and collects what they lead to."""

    def __init__(self, path: Sequence[str]) -> None:
        self.finder = Finder(path)
        self.modules: dict[str, Module] = {}
        #: By key.
        self.distributions: dict[str, Distribution] = {}
        #: By path.
        self.files: dict[str, UserFile] = {}
        self.missing: list[Missing] = []
        self.notes: list[str] = []

    @functools.cached_property
    def installed(self) -> Installed:
        """What is installed on the path, read when it is first needed."""
        return Installed(self.finder.path, sys.prefix)

    def add_main(self, program: str, size: int) -> None:
        """Adds the program itself, whose functions go by value."""
        path = os.path.abspath(program)
        self.files[path] = UserFile(path, size, "by value", "the program")

    def add(self, scan: Scan) -> None:
        """Adds what a look at code came to, and all that follows from it."""
        self.notes += scan.notes
        for one in scan.imports:
            self.add_one(one)

    def add_one(self, one: Import) -> None:
        """Adds one import, and all that follows from it."""
        stands_in = any(self.finder.find(other) is not None for other in one.unless)
        if one.need == NEVER or stands_in:
            self._note_module(Module(one.module, UNNEEDED, need=NEVER), one)
            return
        place = self.finder.find(one.module)
        if place is None:
            self._add_missing(one)
            return
        within = [found for found in (self._within(one, name) for name in one.names) if found]
        if place.is_namespace:
            self._add_namespace(one, place, within)
        else:
            module = self.module(one.module, place, one.need)
            self._note_module(module, one)
            if place.module != one.module and module.kind != STANDARD:
                text = (
                    f"no file of {one.module} is found: {place.module} makes it, or it is not there"
                )
                self.notes.append(f"{one.why}: {text}")
            self._take(place, one)
        for inner in within:
            self._take(inner, one)

    def module(self, name: str, place: Place, need: str = REQUIRED) -> Module:
        """What a module is."""
        owners = {owner.name: owner.version for owner in self.owners(place)}
        if _is_standard(place, self):
            kind = STANDARD
        elif owners:
            kind = INSTALLED
        elif _is_ours(name):
            kind = OURS
        else:
            kind = UNOWNED if self.installed.is_in_site(place.file or "") else LOCAL
        return Module(name, kind, place.file, owners, need)

    def owners(self, place: Place) -> list[Distribution]:
        """The distributions that a module is in, and those of the packages around it."""
        if _is_standard(place, self):
            return []
        found = {owner.key: owner for file in place.files for owner in self.installed.owners(file)}
        return list(found.values())

    def _within(self, one: Import, name: str) -> Place | None:
        return self.finder.find_within(one.module, name)

    def _add_namespace(self, one: Import, place: Place, within: list[Place]) -> None:
        """``from google import protobuf``: each name has to be a module."""
        there = {inner.module for inner in within}
        for inner in within:
            self._note_module(self.module(inner.module, inner, one.need), one)
        for name in one.names:
            if f"{one.module}.{name}" not in there:
                self._add_missing(dataclasses.replace(one, module=f"{one.module}.{name}"))
        if not one.names:
            self._note_module(Module(place.module, NAMESPACE, need=one.need), one)

    def _take(self, place: Place, one: Import) -> None:
        """Takes what a module is in, and what it imports if it is the user's."""
        if place.is_namespace or _is_standard(place, self):
            return
        owners = self.owners(place)
        self.distributions.update((owner.key, owner) for owner in owners)
        if owners or _is_ours(place.module):
            return
        if self.installed.is_in_site(place.file or ""):
            advice = f"no distribution lists {place.file}: install it with pip, uv or conda"
            self._miss(Missing("distribution", place.module, one.why, advice))
            return
        for outer in self._outward(place.module):
            if outer.file is not None and outer.file not in self.files:
                self._follow(outer, outer.file, one.why)

    def _outward(self, module: str) -> Iterator[Place]:
        """A module and the packages around it, from the outermost."""
        names = module.split(".")
        for count in range(1, len(names) + 1):
            place = self.finder.find(".".join(names[:count]))
            if place is not None and not place.is_namespace:
                yield place

    def _follow(self, place: Place, file: str, why: str) -> None:
        """Takes a file of the user's, and looks at its code."""
        self.files[file] = UserFile(
            file, recorded.size_of(file) or 0, "as a file", why, place.module
        )
        if not place.is_source:
            if place.is_compiled:
                self.notes.append(f"{file} is compiled: for this Python and this kind of machine")
            return
        try:
            with open(file, "rb") as opened:
                scan = imports.of_source(opened.read(), _short_name(place, file), place.package)
        except (OSError, SyntaxError, ValueError) as error:
            advice = f"{type(error).__name__}: {error}"
            self._miss(Missing("source", place.module, why, advice))
        else:
            self.add(scan)

    def _add_missing(self, one: Import) -> None:
        self._note_module(Module(one.module, NOWHERE, need=one.need), one)
        if one.need != REQUIRED:
            return
        top = one.module.partition(".")[0]
        advice = "not on sys.path: install what has it, or add its folder to PYTHONPATH"
        if top in sys.stdlib_module_names:
            advice = "of the standard library, and this Python was built without it"
        self._miss(Missing("import", one.module, one.why, advice))

    def _miss(self, one: Missing) -> None:
        if all((other.step, other.name) != (one.step, one.name) for other in self.missing):
            self.missing.append(one)

    def _note_module(self, module: Module, one: Import) -> None:
        """Writes a module down, or one more reason for it; the greatest need counts."""
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
    """Whether it is Gristmill's, which every node has."""
    return module.partition(".")[0] == __name__.partition(".")[0]


def _short_name(place: Place, file: str) -> str:
    """A file as its package has it: there is an ``__init__.py`` in each."""
    depth = len(place.module.split(".")) + place.is_package
    return "/".join(file.split(os.sep)[-depth:])


@functools.cache
def _standard_folders() -> tuple[str, ...]:
    found = {sysconfig.get_path(name) for name in ("stdlib", "platstdlib")}
    return tuple(folder + os.sep for folder in found)


def _is_standard(place: Place, resolver: Resolver) -> bool:
    """Whether a module is the interpreter's own. What is installed may lie below the standard library."""
    if not place.files:
        return not place.is_namespace
    file = place.files[-1]
    return file.startswith(_standard_folders()) and not resolver.installed.is_in_site(file)
