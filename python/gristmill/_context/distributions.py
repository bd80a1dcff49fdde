"""Installed distributions, and the distribution that a file belongs to.

Every answer comes from what an installer recorded, never from a guess by name. A file that no distribution lists has no
owner. Until the first query only lists of names are read. The metadata of a distribution is read when it is needed.
"""

from __future__ import annotations

import functools
import os
import re
import site

from gristmill._context import editable, recorded

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from typing import Any

_METADATA = (".dist-info", ".egg-info")
#: Files that contain the metadata of a distribution. The empty name stands for an ``egg-info`` that is itself a file.
_HEADERS = ("METADATA", "PKG-INFO", "")
_SITE_FOLDERS = ("site-packages", "dist-packages")


def normalized(name: str) -> str:
    """Returns the normalized form of a distribution's name, for comparison.

    Source: Python Packaging User Guide, "Names and normalization".
    """
    return re.sub(r"[-_.]+", "-", name).lower()


class Distribution:
    """One installed distribution."""

    def __init__(self, name: str, version: str, root: str) -> None:
        self.name = name
        self.version = version
        #: Folder that the distribution is installed in.
        self.root = root
        #: Its ``dist-info`` or ``egg-info``; ``None`` if only conda knows the distribution.
        self.metadata: str | None = None
        #: ``pip``, ``uv``, ``conda`` and so on; ``None`` if no installer recorded its name.
        self.installer: str | None = None
        #: Source of the installation if it is not a package index.
        self.origin: str | None = None
        #: True if the code stays in the source folder where its author edits it.
        self.is_editable = False
        #: Record of the package in ``conda-meta``.
        self.conda: dict[str, Any] | None = None
        self.recorded: recorded.Recorded | None = None
        #: Files and folders of the distribution that no record lists.
        self.tops: set[str] = set()

    @property
    def key(self) -> str:
        """Unique key of the distribution in an environment."""
        return normalized(self.name)

    def files(self) -> Iterator[tuple[str, int]]:
        """Yields the absolute path and the size in bytes of each file, without compiled bytecode."""
        if self.conda is not None:
            prefix = self.conda["prefix"]
            yield from recorded.conda_files(self.conda, prefix)
        elif self.recorded is not None:
            yield from self.recorded.files()
        yield from recorded.files_below(sorted(self.tops))

    @functools.cached_property
    def totals(self) -> tuple[int, int]:
        """Number of files, and their total size in bytes."""
        sizes = [size for _, size in self.files()]
        return len(sizes), sum(sizes)

    def headers(self, name: str) -> list[str]:
        """Returns the values of one header of the metadata."""
        if self.metadata is None:
            return []
        return _headers(self.metadata).get(name.lower(), [])


class Installed:
    """All distributions on a path."""

    def __init__(self, path: Sequence[str], prefix: str) -> None:
        self.roots = [os.path.abspath(entry) for entry in path if is_site_folder(entry)]
        links = [target for root in self.roots for target in editable.egg_links(root)]
        self._linked = frozenset(links)
        has_conda = os.path.isdir(os.path.join(prefix, "conda-meta"))
        self._conda = recorded.CondaPackages(prefix) if has_conda else None
        self._by_name: dict[str, Distribution] = {}
        #: Distributions by the real path of their metadata.
        self._by_metadata: dict[str, Distribution] = {}
        self._by_part: dict[tuple[str, str], list[Distribution]] = {}
        self._areas: list[tuple[str, Distribution]] = []
        self._known: set[int] = set()
        for root in dict.fromkeys([*self.roots, *links]):
            real = os.path.realpath(root)
            for entry in _listed(root):
                if entry.endswith(_METADATA):
                    self._by_metadata[os.path.join(real, entry)] = self._add(root, entry)

    def owners(self, file: str) -> list[Distribution]:
        """Returns the distributions that claim a file: usually one."""
        found: list[Distribution] = []
        for root in dict.fromkeys([*self.roots, *self._linked]):
            if file.startswith(root + os.sep):
                inside = file[len(root) + 1 :].replace(os.sep, "/")
                found += self._owners_in(root, inside)
        if not found:
            found = [one for area, one in self._areas if editable.is_in(file, area)]
            for one in found:
                one.tops.add(_top_of(file, [area for area, _ in self._areas]))
        if not found and self._conda is not None:
            record = self._conda.owner(file)
            found = [self._of_conda(record)] if record is not None else []
        return [self._told(one) for one in found]

    def get(self, name: str) -> Distribution | None:
        """Returns the distribution of this name, or ``None``."""
        found = self._by_name.get(normalized(name))
        return self._told(found) if found is not None else None

    def get_conda(self, name: str) -> Distribution | None:
        """Returns the distribution in conda's package of this name, or ``None``."""
        record = self._conda.get(name) if self._conda is not None else None
        return self._told(self._of_conda(record)) if record is not None else None

    def all(self) -> list[Distribution]:
        """Returns all distributions that have metadata, ordered by name."""
        return [self._told(self._by_name[name]) for name in sorted(self._by_name)]

    def is_in_site(self, file: str) -> bool:
        """Returns whether a file is in a folder that distributions are installed in."""
        return any(file.startswith(root + os.sep) for root in self.roots)

    def _add(self, root: str, entry: str) -> Distribution:
        name, _, version = entry.rpartition(".")[0].partition("-")
        new = Distribution(name, re.sub(r"-py\d.*", "", version), root)
        new.metadata = os.path.join(root, entry)
        new.recorded = recorded.of_metadata(new.metadata)
        if new.recorded is not None and root not in self._linked:
            parts = {os.fsdecode(part) for part in new.recorded.first_parts()}
            self._areas += [(area, new) for area in editable.areas(new.recorded)]
        else:
            parts = set(_lines(os.path.join(new.metadata, "top_level.txt")))
            new.is_editable = root in self._linked
        for part in parts:
            self._by_part.setdefault((root, part), []).append(new)
        # Python imports the first match on the path, so the first distribution of a name counts.
        self._by_name.setdefault(new.key, new)
        return new

    def _owners_in(self, root: str, inside: str) -> Iterator[Distribution]:
        part = inside.partition("/")[0]
        for one in self._by_part.get((root, part), ()):
            if one.recorded is not None and one.recorded.has(inside):
                yield one
        # Distributions without a record list the names of their modules.
        for one in self._by_part.get((root, part.partition(".")[0]), ()):
            if one.recorded is None:
                one.tops.add(os.path.join(root, part))
                yield one

    def _of_conda(self, record: dict[str, Any]) -> Distribution:
        """Returns the distribution of a conda package: the one with metadata, if the package contains exactly one."""
        prefix = self._conda.prefix if self._conda is not None else ""
        paths = {
            os.path.join(prefix, name.rpartition("-info")[0] + "-info")
            for name in record.get("files", ())
            if name.endswith(("-info/METADATA", "-info/PKG-INFO", ".egg-info"))
        }
        if len(paths) == 1 and (one := self._by_metadata.get(paths.pop())) is not None:
            return one
        name = str(record.get("name"))
        found = self._by_name.get(f"conda:{name}")
        if found is None:
            found = Distribution(name, str(record.get("version")), prefix)
            found.installer, found.conda = "conda", {**record, "prefix": prefix}
            self._known.add(id(found))
            self._by_name[f"conda:{name}"] = found
        return found

    def _told(self, one: Distribution) -> Distribution:
        """Reads the metadata of a distribution when it is first returned to a caller."""
        if id(one) in self._known or one.metadata is None:
            return one
        self._known.add(id(one))
        one.name = (one.headers("name") or [one.name])[0]
        one.version = (one.headers("version") or [one.version])[0]
        one.installer = next(iter(_lines(os.path.join(one.metadata, "INSTALLER"))), None)
        editable.tell_origin(one)
        # Old packages of conda do not name conda as their installer.
        if one.installer in ("conda", None) and self._conda is not None:
            paths = (os.path.join(one.metadata, name).rstrip(os.sep) for name in _HEADERS)
            record = next(filter(None, map(self._conda.owner, paths)), None)
            if record is not None:
                one.installer, one.conda = "conda", {**record, "prefix": self._conda.prefix}
        return one


def is_site_folder(folder: str) -> bool:
    """Returns whether distributions are installed in a folder, judged by its name or its content."""
    if os.path.basename(folder) in _SITE_FOLDERS or folder in _site_folders():
        return True
    return any(entry.endswith(".dist-info") for entry in _listed(folder))


@functools.cache
def _site_folders() -> frozenset[str]:
    return frozenset([*site.getsitepackages(), site.getusersitepackages()])


def _listed(folder: str) -> list[str]:
    try:
        return sorted(os.listdir(folder))
    except OSError:
        return []


def _lines(path: str) -> list[str]:
    text = recorded.read(path) or b""
    return [line.strip() for line in text.decode("utf-8", "replace").split("\n") if line.strip()]


def _top_of(file: str, areas: list[str]) -> str:
    """Returns the file or folder directly in an area that contains the file."""
    area = max((area for area in areas if editable.is_in(file, area)), key=len)
    if file == area or os.path.isfile(os.path.join(area, "__init__.py")):
        return area
    return os.path.join(area, file[len(area) + 1 :].partition(os.sep)[0])


def _headers(metadata: str) -> dict[str, list[str]]:
    """Returns the headers of ``METADATA`` or ``PKG-INFO``, without the text below them."""
    text = None
    for path in _HEADERS:
        text = text or recorded.read(os.path.join(metadata, path).rstrip(os.sep))
    found: dict[str, list[str]] = {}
    for line in (text or b"").decode("utf-8", "replace").replace("\r\n", "\n").split("\n"):
        if not line:
            break
        name, separator, value = line.partition(":")
        if separator and not line[0].isspace():
            found.setdefault(name.lower(), []).append(value.strip())
    return found
