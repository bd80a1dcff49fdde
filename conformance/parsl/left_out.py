"""The tests that are left out, each with its reason: ``left-out.toml``."""

from __future__ import annotations

import os
import tomllib
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

_LIST = Path(__file__).parent / "left-out.toml"


@dataclass
class Entry:
    """Some tests of some runs that are left out for one reason."""

    reason: str
    runs: frozenset[str]
    #: Each a folder, a file, a function or one of its cases, below ``parsl/tests``.
    tests: tuple[str, ...]
    #: Marks of pytest.
    marks: tuple[str, ...]
    #: What of ``tests`` and ``marks`` has matched a test.
    matched: set[str] = field(default_factory=set)

    def matches(self, test: str, marks: Iterable[str]) -> bool:
        """Whether the test is among them; notes what of the entry said so."""
        found = {one for one in self.tests if _is_within(test, one)} | {*self.marks} & {*marks}
        self.matched |= found
        return bool(found)

    @property
    def unmatched(self) -> list[str]:
        """What names no test any more."""
        return [one for one in (*self.tests, *self.marks) if one not in self.matched]


def entries_of(run: str) -> list[Entry]:
    """What is left out of ``run`` by this user: some tests fail only for root."""
    entries = tomllib.loads(_LIST.read_text())["left-out"]
    is_root = os.geteuid() == 0
    mine = [one for one in entries if run in one["runs"] and (is_root or not one.get("root"))]
    return [
        Entry(
            one["reason"],
            frozenset(one["runs"]),
            tuple(one.get("tests", ())),
            tuple(one.get("marks", ())),
        )
        for one in mine
    ]


def _is_within(test: str, entry: str) -> bool:
    test = test.removeprefix("parsl/tests/")
    return test == entry or (test.startswith(entry) and test[len(entry)] in "/:[")
