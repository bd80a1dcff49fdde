"""Excluded tests of a suite, each with the reason: the file ``left-out.toml``."""

from __future__ import annotations

import os
import sysconfig
import tomllib
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path


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
    entries = tomllib.loads(path.read_text())["left-out"]
    return [
        Entry(
            one["reason"],
            frozenset(one["runs"]),
            tuple(one.get("tests", ())),
            tuple(one.get("marks", ())),
        )
        for one in entries
        if run in one["runs"] and _is_meant(one)
    ]


def _is_meant(entry: dict[str, object]) -> bool:
    pythons = entry.get("pythons")
    is_this_python = pythons is None or sysconfig.get_python_version() in pythons  # type: ignore[operator]
    return is_this_python and (os.geteuid() == 0 or not entry.get("root"))


def _is_within(test: str, entry: str) -> bool:
    if entry.startswith("*"):
        is_case = entry.endswith("]")
        return (test if is_case else test.split("[")[0]).endswith(entry[1:])
    return test == entry or (test.startswith(entry) and test[len(entry)] in "/:[")
