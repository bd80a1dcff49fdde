"""A plugin of pytest for one run of Parsl's tests: leaves tests out, and writes a report as a JSON file.

A run of the kernel here puts it in the place of Parsl's before Parsl's tests and their ``conftest.py`` are imported.
It is a plugin and no program, because processes that Parsl spawns load the main program of their parent again.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import left_out

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


def pytest_addoption(parser: pytest.Parser) -> None:
    """Which run it is, and where its report goes."""
    parser.addoption("--conformance-run", required=True)
    parser.addoption("--conformance-report", required=True, type=Path)


def pytest_load_initial_conftests(early_config: pytest.Config) -> None:
    """Puts the kernel here in the place of Parsl's, in the runs of it."""
    if early_config.known_args_namespace.conformance_run in _KERNEL_RUNS:
        import gristmill.parsl

        gristmill.parsl.install()


def pytest_configure(config: pytest.Config) -> None:
    """Starts to count."""
    session = Session(config.getoption("--conformance-run"))
    config.pluginmanager.register(session, "conformance-session")


def pytest_unconfigure(config: pytest.Config) -> None:
    """Writes the report."""
    session = config.pluginmanager.get_plugin("conformance-session")
    if isinstance(session, Session):
        config.getoption("--conformance-report").write_text(json.dumps(session.report()))
