"""Pytest plugin for one run of another project's tests: skips the excluded tests and records the outcome of the others.

This is a plugin instead of a program because processes that tests spawn load the main program of their parent again.
"""

from __future__ import annotations

import os
import random
from collections.abc import Iterator
from pathlib import Path

import pytest

import left_out
import tally

_OWN_ENDS = (
    pytest.ExitCode.OK,
    pytest.ExitCode.TESTS_FAILED,
    pytest.ExitCode.NO_TESTS_COLLECTED,
)

#: Limit in seconds for an excluded test, unless it has its own.
_EXCLUDED_S = 60
#: Words of pytest-timeout, and of tests that find a hang themselves.
_SIGNS_OF_HANGS = ("from pytest-timeout", "Executor deadlock")


class Session:
    """A hook that drops the excluded tests and records the others.

    :param entries: excluded tests.
    :param are_run: whether the excluded tests are run last. Each of them has to fail, within a time limit.
    :param path: tally file. Tests that have an outcome in it are not run again.
    :param below: folder of the tests; names in the list of excluded tests are relative to it.
    """

    def __init__(
        self, entries: list[left_out.Entry], are_run: bool, path: Path, below: str
    ) -> None:
        self._entries = entries
        self._are_run = are_run
        self._left_out: set[str] = set()
        #: Phases of the running test.
        self._phases: list[pytest.TestReport] = []
        self._path = path
        self._below = below
        self._process = os.getpid()
        self._known = tally.read(path).outcomes

    def _tell(self, event: str, *values: object) -> None:
        # A process that a test forks has this plugin too, but events in it are no tests.
        if os.getpid() == self._process:
            tally.tell(self._path, event, *values)

    def pytest_collection(self) -> None:
        """Seeds the random generator: some tests are named after random values, which must be the same in each run."""
        random.seed(0)

    # This wraps the project's own hook, which may drop tests that belong to another kind of run.
    @pytest.hookimpl(hookwrapper=True, tryfirst=True)
    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> Iterator[None]:
        """Drops the excluded tests, or puts them last; drops those whose outcome is known."""
        yield
        random.seed()
        excluded = [item for item in items if self._is_left_out(item)]
        self._left_out = {item.nodeid for item in excluded}
        kept = [item for item in items if item.nodeid not in self._left_out]
        unmatched = [name for entry in self._entries for name in entry.unmatched]
        self._tell("collected", sorted(self._left_out), unmatched)
        if self._are_run:
            for item in excluded:
                item.add_marker(pytest.mark.timeout(_EXCLUDED_S), append=False)
            kept += excluded
        items[:] = [item for item in kept if item.nodeid not in self._known]

    def _is_left_out(self, item: pytest.Item) -> bool:
        marks = {mark.name for mark in item.iter_markers()}
        test = item.nodeid.removeprefix(self._below)
        return any([entry.matches(test, marks) for entry in self._entries])

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        """Records a file that cannot be imported as a failure."""
        if report.failed:
            self._tell("came_to", report.nodeid, "failed")

    def pytest_runtest_logstart(self, nodeid: str) -> None:
        """Records the start of a test: if pytest dies, it is in this test."""
        self._tell("began", nodeid)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Records the outcome of a test. Only its call counts as passed, but each phase can fail or skip."""
        if report.nodeid in self._left_out:
            self._phases.append(report)
            return
        if report.when == "call" or not report.passed:
            self._tell("came_to", report.nodeid, report.outcome)
        if report.failed:
            # This is printed at once, because the summary of pytest is lost if pytest dies.
            print(f"\n== {report.nodeid}, {report.when}\n{report.longreprtext}", flush=True)

    def pytest_runtest_logfinish(self, nodeid: str) -> None:
        """Records the end of a test, so that the next one may begin."""
        if nodeid in self._left_out:
            phases, self._phases = self._phases, []
            problem = _problem(phases)
            if problem:
                print(f"\n== {nodeid} is left out, and {problem}", flush=True)
            self._tell("came_to", nodeid, "failed" if problem else "left out")
        self._tell("finished")

    def pytest_sessionfinish(self, session: pytest.Session, exitstatus: int) -> None:
        """Records that pytest ended by itself. Other exit codes mean that a test interrupted it."""
        # The failures have been printed already.
        session.config.option.tbstyle = "no"
        if exitstatus in _OWN_ENDS:
            self._tell("ended")


def _problem(phases: list[pytest.TestReport]) -> str:
    """Returns why an excluded test may not be in the list; an empty string if it fails as it should."""
    texts = [phase.longreprtext for phase in phases if phase.failed]
    if any(sign in text for text in texts for sign in _SIGNS_OF_HANGS):
        return f"hangs:\n{texts[0]}"
    if texts:
        return ""
    return "is skipped" if any(phase.skipped for phase in phases) else "passes"


def pytest_addoption(parser: pytest.Parser) -> None:
    """Adds the options for the name of the run, its excluded tests, and its tally file."""
    parser.addoption("--conformance-run", required=True)
    parser.addoption("--conformance-tally", required=True, type=Path)
    parser.addoption("--conformance-left-out", type=Path)
    parser.addoption("--conformance-below", default="")


def pytest_configure(config: pytest.Config) -> None:
    """Registers the session's hooks."""
    known = config.getoption("--conformance-left-out")
    run = config.getoption("--conformance-run")
    entries = left_out.entries_of(known, run) if known else []
    are_run = known is not None and left_out.are_run(known)
    path = config.getoption("--conformance-tally")
    below = config.getoption("--conformance-below")
    config.pluginmanager.register(Session(entries, are_run, path, below))
