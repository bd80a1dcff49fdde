"""Runs other projects' own tests on our executor: ``suites.py [--sample] NAME...``. Without a name it runs all suites.

Each suite is a folder beside this file. ``suite.toml`` names the tests to run and their source: a release, or a folder
of the project's repository if the release has no tests (``checkout.py``). ``adapter.py`` is a pytest plugin that
replaces the project's executor by ours. ``left-out.toml`` lists the excluded tests, each with the reason. ``--sample``
runs only the tests under ``sample`` in ``suite.toml``.

The program prints a table. It fails if a test fails that is not excluded, or if an entry in the list of excluded tests
matches no test. Parsl's tests have a program of their own, ``parsl/run.py``, because they run in several ways.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import sysconfig
import time
import tomllib
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import tally
import watch
from checkout import Checkout, Unreachable
from release import Release

_HERE = Path(__file__).parent
_ROOT = _HERE.parent
_FOLDER = _ROOT / "target" / "conform"
#: ``functions``: those of the tests that are left out.
_COLUMNS = ("collected", "passed", "failed", "skipped", "left out", "functions")
#: Environment variable with a folder of CPython's ``Lib/test`` folders, named by version, for interpreters without
#: them.
_CPYTHON = "GRISTMILL_CPYTHON_TESTS"
#: Folder that Debian's packages libpython3.11-testsuite and similar install.
_DEBIAN = "/usr/lib/python{}/test"
#: Folder of such folders, into which .ci/packages unpacks these packages.
_UNPACKED = _FOLDER / "cpython"
#: Environment variable that passes the folder of tests to ``beside/sitecustomize.py``.
_BESIDE = "GRISTMILL_TESTS_BESIDE"


@dataclass(frozen=True)
class Suite:
    """Tests of one project."""

    name: str
    #: Files or folders, relative to the source.
    tests: list[str]
    sample: list[str]
    #: Tests that are not collected: they never use the executor, or fail with the project's own one here.
    not_ours: list[str] = field(default_factory=list)
    #: Prefix of the tests' paths that names in the list of excluded tests lack.
    below: str = ""
    #: Source of the tests; ``None`` for those of the interpreter.
    source: Release | Checkout | None = None
    #: True if programs that tests start load the adapter too, through the module ``sitecustomize`` in ``beside``.
    has_beside: bool = False
    environment: dict[str, str] = field(default_factory=dict)

    @property
    def folder(self) -> Path:
        """Folder of the suite and its adapter."""
        return _HERE / self.name

    def path(self, interpreter: str) -> Path:
        """Returns the path of the tally file for one interpreter."""
        return _FOLDER / f"{self.name}-{interpreter}.tally"


def read_suite(name: str) -> Suite:
    """Returns the suite that ``suite.toml`` describes."""
    told: dict[str, Any] = tomllib.loads((_HERE / name / "suite.toml").read_text())
    source: Release | Checkout | None = None
    if "release" in told:
        source = Release(**told.pop("release"))
    elif "checkout" in told:
        source = Checkout(**told.pop("checkout"))
    return Suite(name, source=source, **told)


def names() -> list[str]:
    """Returns the names of all suites."""
    return sorted(path.parent.name for path in _HERE.glob("*/suite.toml"))


def interpreters(suite: Suite) -> dict[str, str]:
    """Returns the interpreters to run the suite on, by version. CPython's tests run on every interpreter available."""
    own = sysconfig.get_python_version()
    found = {own: sys.executable}
    if suite.source is None:
        for path in sorted(_ROOT.glob(".venvs/3.*/bin/python")):
            found.setdefault(path.parent.parent.name, str(path))
    return found


def lacks(python: str, version: str, suite: Suite) -> str:
    """Returns the reason why the suite cannot run on an interpreter; an empty string if it can."""
    if suite.source is None and not _has_tests(python, version, suite):
        return (
            f"it comes without test.test_concurrent_futures: install Debian's libpython{version}-testsuite, or "
            f"set ${_CPYTHON} to a folder with CPython's Lib/test as {version}"
        )
    program = "import gristmill._native, pytest, pytest_timeout"
    asked = subprocess.run(
        [python, "-c", program],
        capture_output=True,
        text=True,
        env=_environment(suite, version),
    )
    said = asked.stderr.strip().splitlines()
    return "" if asked.returncode == 0 else said[-1] if said else "the interpreter does not start"


def _has_tests(python: str, version: str, suite: Suite) -> bool:
    """Returns whether an interpreter can import CPython's tests."""
    program = "import test.test_concurrent_futures"
    environment = _environment(suite, version)
    asked = subprocess.run([python, "-c", program], capture_output=True, env=environment)
    return asked.returncode == 0


def run(suite: Suite, python: str, version: str, is_sample: bool) -> None:
    """Runs the suite until every test has an outcome. Raises ``Unreachable`` if its tests are not available."""
    source = suite.folder if suite.source is None else suite.source.unpack(_FOLDER)
    _FOLDER.mkdir(parents=True, exist_ok=True)
    options = ["-c", str(_HERE / "pytest.ini"), "--rootdir", "."]
    plugins = ["-p", "counted_run", "-p", "adapter"]
    ours = ["--conformance-run", "sample" if is_sample else "whole"]
    ours += ["--conformance-tally", str(suite.path(version)), "--conformance-below", suite.below]
    ours += ["--conformance-left-out", str(suite.folder / "left-out.toml")]
    not_ours = [f"--deselect={test}" for test in suite.not_ours]
    tests = suite.sample if is_sample else suite.tests
    command = [python, "-m", "pytest", *options, *plugins, *ours, *not_ours, *tests]
    watch.run(command, source, _environment(suite, version), suite.path(version))


def _environment(suite: Suite, version: str) -> dict[str, str]:
    modules = [str(suite.folder), str(_HERE)]
    environment = {**os.environ, **suite.environment}
    beside = _tests_beside(version) if suite.source is None else None
    if beside is not None:
        environment[_BESIDE] = str(beside)
    if suite.has_beside or beside is not None:
        modules.append(str(suite.folder / "beside"))
    return environment | {"PYTHONPATH": os.pathsep.join(modules)}


def _tests_beside(version: str) -> Path | None:
    """Returns the folder of CPython's tests for an interpreter of this version that lacks them; ``None`` if there is
    none.
    """
    given = os.environ.get(_CPYTHON)
    places = [Path(given) / version] if given else []
    places.append(_UNPACKED / version)
    places.append(Path(_DEBIAN.format(version)))
    return next((place for place in places if any(place.glob("test_concurrent_futures*"))), None)


def report(rows: dict[tuple[str, str], tuple[Suite, float]]) -> bool:
    """Prints the results of the runs. Returns whether something failed."""
    print(
        f"\n{'suite':16}{'Python':>8}" + "".join(f"{name:>10}" for name in (*_COLUMNS, "seconds"))
    )
    has_failed = False
    for (name, version), (suite, seconds) in rows.items():
        known = tally.read(suite.path(version))
        numbers = known.numbers()
        counts = "".join(f"{numbers[column]:>10}" for column in _COLUMNS)
        print(f"{name:16}{version:>8}{counts}{seconds:>10.0f}")
        has_failed |= bool(known.failures or known.unmatched or not numbers["passed"])
    for (name, version), (suite, _) in rows.items():
        known = tally.read(suite.path(version))
        for test in known.failures:
            how = f" (pytest {known.deaths[test]})" if test in known.deaths else ""
            print(f"{name}, {version}: failed: {test}{how}")
        for entry in known.unmatched:
            print(f"{name}, {version}: left out, and names no test: {entry}")
    return has_failed


def main() -> int:
    """Runs the suites that the command line names. Returns the exit code."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split(":")[0])
    parser.add_argument("--sample", action="store_true", help="a few tests of each, for CI")
    parser.add_argument("names", nargs="*", metavar="NAME", help=", ".join(names()))
    told = parser.parse_args()
    wanted = names() if told.names in ([], ["all"]) else told.names
    unknown = {*wanted} - {*names()}
    if unknown:
        parser.error(f"no such suite: {', '.join(sorted(unknown))}; there are {', '.join(names())}")
    rows = {}
    for suite in map(read_suite, wanted):
        for version, python in interpreters(suite).items():
            title = f"== {suite.name} on Python {version}"
            reason = lacks(python, version, suite)
            if reason:
                print(f"{title} skipped: {reason}", flush=True)
                continue
            print(title, flush=True)
            began = time.monotonic()
            try:
                run(suite, python, version, told.sample)
            except Unreachable as error:
                print(f"{title} skipped: {error}", flush=True)
                continue
            rows[suite.name, version] = suite, time.monotonic() - began
    return int(report(rows))


if __name__ == "__main__":
    sys.exit(main())
