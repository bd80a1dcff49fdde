"""Excluded tests of a suite, each with the reason: the file ``left-out.toml``."""

from __future__ import annotations

import os
import re
import sysconfig
import tomllib
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable

_ROOT = Path(__file__).parents[1]


@dataclass
class Entry:
    """Tests that some runs exclude for one reason."""

    reason: str
    runs: frozenset[str]
    #: Folders, files, classes, functions or cases of functions, below the suite's folder of tests. A ``*`` at the
    #: beginning matches any file and class.
    tests: tuple[str, ...]
    #: Names of pytest marks.
    marks: tuple[str, ...]
    #: Page and heading of the documented difference; ``None`` for tests that reach into private attributes.
    docs: str | None = None
    #: Members of ``tests`` and ``marks`` that have matched a test.
    matched: set[str] = field(default_factory=set)

    def matches(self, test: str, marks: Iterable[str]) -> bool:
        """Returns whether the entry excludes the test, and records the members that match it."""
        found = {one for one in self.tests if _is_within(test, one)} | {*self.marks} & {*marks}
        self.matched |= found
        return bool(found)

    @property
    def unmatched(self) -> list[str]:
        """Members of ``tests`` and ``marks`` that match no test any more."""
        return [one for one in (*self.tests, *self.marks) if one not in self.matched]


def entries_of(path: Path, run: str) -> list[Entry]:
    """Returns the entries of the list at ``path`` that apply to this run, user and interpreter.

    Some tests fail only for root.
    """
    return [_entry(one) for one in read(path) if run in one["runs"] and _is_meant(one)]


def are_run(path: Path) -> bool:
    """Returns whether the tests of the list at ``path`` are run too, last, and have to fail."""
    return bool(tomllib.loads(path.read_text()).get("are-run"))


def read(path: Path) -> list[dict[str, Any]]:
    """Returns the list at ``path``.

    In a list of tests that are run, each entry reaches into private attributes (``private``) or names the heading of a
    documented difference (``docs``). Raises ``ValueError`` if it does neither or both, or if there is no such heading.
    """
    entries: list[dict[str, Any]] = tomllib.loads(path.read_text())["left-out"]
    for one in entries if are_run(path) else ():
        docs = one.get("docs")
        if (docs is None) == (not one.get("private")):
            raise ValueError(f"{path}: either private or docs: {one['reason']}")
        if docs is not None and not has_heading(docs):
            raise ValueError(f"{path}: no such heading: {docs}")
    return entries


def has_heading(place: str) -> bool:
    """Returns whether ``place``, as ``how-to/from-dask.md#futures``, is a heading of the documentation."""
    page, _, anchor = place.partition("#")
    file = _ROOT / "docs" / page
    if not file.is_file():
        return False
    headings = re.findall(r"^#+ +(.+?) *$", file.read_text(), re.MULTILINE)
    return anchor in map(_anchor, headings)


def _anchor(heading: str) -> str:
    words = re.sub(r"[^\w\s-]", "", heading.lower())
    return re.sub(r"[\s-]+", "-", words).strip("-")


def function_of(test: str) -> str:
    """Returns the function of a test: without its case, and for both ways to start workers."""
    return re.sub(r"Fork|Spawn", "", test.split("[")[0])


def _entry(told: dict[str, Any]) -> Entry:
    return Entry(
        told["reason"],
        frozenset(told["runs"]),
        tuple(told.get("tests", ())),
        tuple(told.get("marks", ())),
        told.get("docs"),
    )


def _is_meant(entry: dict[str, object]) -> bool:
    pythons = entry.get("pythons")
    is_this_python = pythons is None or sysconfig.get_python_version() in pythons  # type: ignore[operator]
    return is_this_python and (os.geteuid() == 0 or not entry.get("root"))


def _is_within(test: str, entry: str) -> bool:
    if entry.startswith("*"):
        is_case = entry.endswith("]")
        return (test if is_case else test.split("[")[0]).endswith(entry[1:])
    return test == entry or (test.startswith(entry) and test[len(entry)] in "/:[")
