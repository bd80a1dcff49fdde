"""A plugin of pytest for one run of Parsl's tests: leaves tests out, and tells what became of the others.

A run of the kernel here puts it in the place of Parsl's before Parsl's tests and their ``conftest.py`` are imported.
It is a plugin and no program, because processes that Parsl spawns load the main program of their parent again.
"""

from __future__ import annotations

import os
import random
from collections.abc import Iterator
from pathlib import Path

import pytest

import left_out
import tally

#: Runs with the kernel here instead of Parsl's.
_KERNEL_RUNS = ("b", "c", "d")
_OWN_ENDS = (
    pytest.ExitCode.OK,
    pytest.ExitCode.TESTS_FAILED,
    pytest.ExitCode.NO_TESTS_COLLECTED,
)


class Session:
    """Leaves tests out, and tells of the others.

    :param run: which run it is.
    :param path: the file to tell it to. Tests that it has an outcome of already are not run again.
    """

    def __init__(self, run: str, path: Path) -> None:
        self._entries = left_out.entries_of(run)
        self._path = path
        self._process = os.getpid()
        self._known = tally.read(path).outcomes

    def _tell(self, event: str, *values: object) -> None:
        # A process that a test forks has this plugin too, and what happens in there is no test.
        if os.getpid() == self._process:
            tally.tell(self._path, event, *values)

    def pytest_collection(self) -> None:
        """Some tests are named after values that are drawn at random: they are to have the same names each time."""
        random.seed(0)

    # Around Parsl's own, which drops the tests that are of another kind of run.
    @pytest.hookimpl(hookwrapper=True, tryfirst=True)
    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> Iterator[None]:
        """Drops the tests that are left out, and those whose outcome is known."""
        yield
        random.seed()
        kept = [item for item in items if not self._is_left_out(item)]
        unmatched = [name for entry in self._entries for name in entry.unmatched]
        self._tell("collected", len(items) - len(kept), unmatched)
        items[:] = [item for item in kept if item.nodeid not in self._known]

    def _is_left_out(self, item: pytest.Item) -> bool:
        marks = {mark.name for mark in item.iter_markers()}
        return any([entry.matches(item.nodeid, marks) for entry in self._entries])

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        """A file that cannot be imported is a failure."""
        if report.failed:
            self._tell("came_to", report.nodeid, "failed")

    def pytest_runtest_logstart(self, nodeid: str) -> None:
        """If pytest dies, it is in this test."""
        self._tell("began", nodeid)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """A test that passes does so in its call."""
        if report.when == "call" or not report.passed:
            self._tell("came_to", report.nodeid, report.outcome)
        if report.failed:
            # At once: what pytest says at its end is lost if it dies.
            print(f"\n== {report.nodeid}, {report.when}\n{report.longreprtext}", flush=True)

    def pytest_runtest_logfinish(self) -> None:
        """The next one may begin."""
        self._tell("finished")

    def pytest_sessionfinish(self, session: pytest.Session, exitstatus: int) -> None:
        """Not every end is its own: a test may interrupt it."""
        # They were printed.
        session.config.option.tbstyle = "no"
        if exitstatus in _OWN_ENDS:
            self._tell("ended")


def pytest_addoption(parser: pytest.Parser) -> None:
    """Which run it is, and which file it is told to."""
    parser.addoption("--conformance-run", required=True)
    parser.addoption("--conformance-tally", required=True, type=Path)


def pytest_load_initial_conftests(early_config: pytest.Config) -> None:
    """Puts the kernel here in the place of Parsl's, in the runs of it."""
    if early_config.known_args_namespace.conformance_run in _KERNEL_RUNS:
        import gristmill.parsl

        gristmill.parsl.install()


def pytest_configure(config: pytest.Config) -> None:
    """Begins to tell."""
    path = config.getoption("--conformance-tally")
    config.pluginmanager.register(Session(config.getoption("--conformance-run"), path))
