"""One run of Parsl's tests, in a process of its own: ``session.py RUN CONFIG REPORT``, from the source's folder.

A run of the kernel here puts it in the place of Parsl's before any test is imported. The report is a JSON file.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import left_out

_HERE = Path(__file__).parent
#: Runs with the kernel here instead of Parsl's.
_KERNEL_RUNS = ("b", "c", "d")


class Session:
    """Leaves tests out and counts the others."""

    def __init__(self, run: str) -> None:
        self._entries = left_out.entries_of(run)
        self._left_out = 0
        self._outcomes: dict[str, str] = {}
        self._began = time.monotonic()

    # Around Parsl's own, which drops the tests that are of another kind of run.
    @pytest.hookimpl(hookwrapper=True, tryfirst=True)
    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> Iterator[None]:
        """Drops the tests that are left out."""
        yield
        kept = [item for item in items if not self._is_left_out(item)]
        self._left_out = len(items) - len(kept)
        items[:] = kept

    def _is_left_out(self, item: pytest.Item) -> bool:
        marks = {mark.name for mark in item.iter_markers()}
        return any([entry.matches(item.nodeid, marks) for entry in self._entries])

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        """A file that cannot be imported is a failure."""
        if report.failed:
            self._outcomes[report.nodeid] = "failed"

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """The worst of set-up, call and clean-up is what a test came to."""
        if report.failed:
            self._outcomes[report.nodeid] = "failed"
        elif report.skipped or report.when == "call":
            self._outcomes.setdefault(report.nodeid, report.outcome)

    def report(self) -> dict[str, Any]:
        """What the table and the verdict need."""
        outcomes = list(self._outcomes.values())
        counts = {one: outcomes.count(one) for one in ("passed", "failed", "skipped")}
        return {
            "collected": len(outcomes) + self._left_out,
            **counts,
            "left out": self._left_out,
            "seconds": round(time.monotonic() - self._began, 1),
            "failures": sorted(one for one, is_ in self._outcomes.items() if is_ == "failed"),
            "unmatched": [name for entry in self._entries for name in entry.unmatched],
        }


def main(run: str, config: str, report: str) -> None:
    """Runs the tests and writes the report."""
    # What Parsl's tests import is the source's, and what workers import too.
    sys.path[0] = str(Path.cwd())
    if run in _KERNEL_RUNS:
        import gristmill.parsl

        gristmill.parsl.install()
    session = Session(run)
    options = ["-c", str(_HERE / "pytest.ini"), "--rootdir", ".", "--config", config]
    pytest.main([*options, "parsl/tests"], plugins=[session])
    Path(report).write_text(json.dumps(session.report()))


if __name__ == "__main__":
    main(*sys.argv[1:])
