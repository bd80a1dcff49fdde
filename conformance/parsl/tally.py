"""What became of each test of one run, kept in a file line by line, so that it is there when pytest dies."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path

#: Of the parts of a test, set-up, call and clean-up, the worst is what it came to.
_FROM_GOOD_TO_BAD = ("passed", "skipped", "failed")


@dataclass
class Tally:
    """What is known of a run. Its methods are what can be written to the file."""

    left_out: int = 0
    #: What is listed to be left out, and names no test.
    unmatched: list[str] = field(default_factory=list)
    #: ``passed``, ``skipped`` or ``failed``, by test.
    outcomes: dict[str, str] = field(default_factory=dict)
    #: The test that is under way.
    running: str | None = None
    #: How pytest died, by the test that it was in.
    deaths: dict[str, str] = field(default_factory=dict)
    #: Whether pytest came to its own end.
    has_ended: bool = False

    def collected(self, left_out: int, unmatched: list[str]) -> None:
        """Pytest knows its tests, and has dropped those that are left out."""
        self.left_out, self.unmatched = left_out, unmatched

    def began(self, test: str) -> None:
        """The set-up of a test begins."""
        self.running = test

    def came_to(self, test: str, outcome: str) -> None:
        """A part of a test is over."""
        known = self.outcomes.get(test, "passed")
        self.outcomes[test] = max(known, outcome, key=_FROM_GOOD_TO_BAD.index)

    def finished(self) -> None:
        """The test that began is over."""
        self.running = None

    def died(self, test: str, how: str) -> None:
        """Pytest was in this test and is no more."""
        self.deaths[test] = how
        self.came_to(test, "failed")
        self.finished()

    def ended(self) -> None:
        """Pytest ends."""
        self.has_ended = True

    @property
    def failures(self) -> list[str]:
        """The tests that failed."""
        return sorted(test for test, outcome in self.outcomes.items() if outcome == "failed")

    def numbers(self) -> dict[str, int]:
        """What goes into the table."""
        outcomes = list(self.outcomes.values())
        return {
            "collected": len(outcomes) + self.left_out,
            **{one: outcomes.count(one) for one in ("passed", "failed", "skipped")},
            "left out": self.left_out,
        }


def tell(path: Path, event: str, *values: object) -> None:
    """Adds a line to the file: the name of a method of ``Tally``, and its arguments."""
    with path.open("a") as file:
        file.write(json.dumps([event, *values]) + "\n")


def read(path: Path) -> Tally:
    """What the file says so far."""
    tally = Tally()
    for line in path.read_text().splitlines():
        event, *values = json.loads(line)
        getattr(tally, event)(*values)
    return tally
