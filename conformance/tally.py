"""Outcome of each test in one run, written to a file line by line, so that it survives the death of pytest."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path

from left_out import function_of

#: Possible outcomes. The outcome of a test is the worst of its phases: setup, call and teardown.
_FROM_GOOD_TO_BAD = ("passed", "skipped", "left out", "failed")


@dataclass
class Tally:
    """State of a run. The methods apply the events that are written to the file."""

    #: Excluded tests.
    left_out: list[str] = field(default_factory=list)
    #: Entries in the list of excluded tests that match no test.
    unmatched: list[str] = field(default_factory=list)
    #: ``passed``, ``skipped``, ``left out`` or ``failed``, by test.
    outcomes: dict[str, str] = field(default_factory=dict)
    #: Test that is running.
    running: str | None = None
    #: Cause of each death of pytest, by the test that it was in.
    deaths: dict[str, str] = field(default_factory=dict)
    #: True if pytest ended by itself.
    has_ended: bool = False

    def collected(self, left_out: list[str], unmatched: list[str]) -> None:
        """Records the collection."""
        self.left_out, self.unmatched = left_out, unmatched

    def began(self, test: str) -> None:
        """Records the start of a test."""
        self.running = test

    def came_to(self, test: str, outcome: str) -> None:
        """Records the outcome of one phase of a test."""
        known = self.outcomes.get(test, "passed")
        self.outcomes[test] = max(known, outcome, key=_FROM_GOOD_TO_BAD.index)

    def finished(self) -> None:
        """Records the end of the running test."""
        self.running = None

    def died(self, test: str, how: str) -> None:
        """Records that pytest died in a test."""
        self.deaths[test] = how
        self.came_to(test, "failed")
        self.finished()

    def ended(self) -> None:
        """Records that pytest ended by itself."""
        self.has_ended = True

    @property
    def failures(self) -> list[str]:
        """Tests that failed."""
        return sorted(test for test, outcome in self.outcomes.items() if outcome == "failed")

    def numbers(self) -> dict[str, int]:
        """Returns the numbers for the table."""
        outcomes = list(self.outcomes.values())
        return {
            "collected": len({*self.outcomes, *self.left_out}),
            **{one: outcomes.count(one) for one in ("passed", "failed", "skipped")},
            "left out": len(self.left_out),
            "functions": len(set(map(function_of, self.left_out))),
        }


def tell(path: Path, event: str, *values: object) -> None:
    """Appends an event to the file: the name of a method of ``Tally``, and its arguments."""
    with path.open("a") as file:
        file.write(json.dumps([event, *values]) + "\n")


def read(path: Path) -> Tally:
    """Returns the state that the file describes so far."""
    tally = Tally()
    for line in path.read_text().splitlines():
        event, *values = json.loads(line)
        getattr(tally, event)(*values)
    return tally
