"""Runs Parsl's own released tests against Parsl, our executor and our kernel: ``run.py [upstream|a|b|c|d]...``.

=========  ==================  =========================================
upstream   Parsl's kernel      its threads, its processes, its local tests
a          Parsl's kernel      our executor
b          our kernel          Parsl's threads
c          our kernel          our executor
d          our kernel          its local tests
=========  ==================  =========================================

Prints a table, each row beside what Parsl itself came to in the same invocation. Fails if a test of a, b, c or d fails
that is not left out and did not fail for Parsl itself, or if something that is left out is no test any more.
"""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path
from typing import NamedTuple

import release
import watch
from tally import Tally

_HERE = Path(__file__).parent
_FOLDER = _HERE.parent.parent / "target" / "conform"
_OURS = str(_HERE / "configs" / "gristmill_executor.py")
_THREADS = "parsl/tests/configs/local_threads.py"

#: The runs of each mode, by name, each with its configuration.
_MODES = {
    "upstream": {
        "upstream-threads": _THREADS,
        "upstream-htex": "parsl/tests/configs/htex_local.py",
        "upstream-local": "local",
    },
    "a": {"a": _OURS},
    "b": {"b": _THREADS},
    "c": {"c": _OURS},
    "d": {"d": "local"},
}
#: Which run of Parsl itself a run of ours is compared with.
_BESIDE = {
    "a": "upstream-htex",
    "b": "upstream-threads",
    "c": "upstream-htex",
    "d": "upstream-local",
}
_COLUMNS = ("collected", "passed", "failed", "skipped", "left out", "seconds")


class Report(NamedTuple):
    """What one run came to."""

    tally: Tally
    seconds: float

    @property
    def numbers(self) -> dict[str, float]:
        """By the names of the columns."""
        return {**self.tally.numbers(), "seconds": self.seconds}


def main(modes: list[str]) -> int:
    """Runs the modes, all if none is given; gives the exit code."""
    unknown = set(modes) - set(_MODES)
    if unknown:
        raise SystemExit(
            f"no such mode: {', '.join(sorted(unknown))}; there are {', '.join(_MODES)}"
        )
    source = release.unpack(_FOLDER)
    reports = {}
    for mode in modes or _MODES:
        for run, config in _MODES[mode].items():
            reports[run] = _run(run, config, source)
    _print_table(reports)
    return int(any([_has_failed(run, reports) for run in reports]))


def _run(run: str, config: str, source: Path) -> Report:
    print(f"== {run}: --config {config}", flush=True)
    path = _FOLDER / f"{run}.tally"
    options = ["-c", str(_HERE / "pytest.ini"), "--rootdir", ".", f"--config={config}"]
    ours = ["-p", "counted_run", "--conformance-run", run, "--conformance-tally", str(path)]
    command = [sys.executable, "-m", "pytest", *options, *ours, "parsl/tests"]
    began = time.monotonic()
    known = watch.run(command, source, _environment(), path)
    return Report(known, round(time.monotonic() - began, 1))


def _environment() -> dict[str, str]:
    """The plugin is found here, Parsl finds its programs by name, and some tests read the log of single tasks."""
    programs = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    ours = {"PATH": programs, "PYTHONPATH": str(_HERE), "GRISTMILL_LOG_TASKS": "1"}
    return {**os.environ, **ours}


def _print_table(reports: dict[str, Report]) -> None:
    print(f"\n{'run':18}" + "".join(f"{name:>10}" for name in _COLUMNS) + "  Parsl itself")
    for run, report in reports.items():
        numbers = report.numbers
        beside = reports.get(_BESIDE.get(run, ""))
        itself = (
            ""
            if beside is None
            else "  {passed} passed, {failed} failed".format_map(beside.numbers)
        )
        print(f"{run:18}" + "".join(f"{numbers[name]:>10}" for name in _COLUMNS) + itself)


def _has_failed(run: str, reports: dict[str, Report]) -> bool:
    tests = reports[run].tally
    beside = reports.get(_BESIDE.get(run, ""))
    itself = [] if beside is None else beside.tally.failures
    for test in tests.failures:
        how = f" (pytest {tests.deaths[test]})" if test in tests.deaths else ""
        print(f"{run}: failed{', as for Parsl itself' if test in itself else ''}: {test}{how}")
    for name in tests.unmatched:
        print(f"{run}: left out, and names no test: {name}")
    ours = {*tests.failures} - {*itself} if run in _BESIDE else set()
    return bool(ours or tests.unmatched or not reports[run].numbers["passed"])


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
