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

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import release

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


def _run(run: str, config: str, source: Path) -> dict[str, Any]:
    print(f"== {run}: --config {config}", flush=True)
    path = _FOLDER / f"{run}.json"
    path.unlink(missing_ok=True)
    options = ["-c", str(_HERE / "pytest.ini"), "--rootdir", ".", f"--config={config}"]
    ours = ["-p", "counted_run", "--conformance-run", run, "--conformance-report", str(path)]
    command = [sys.executable, "-m", "pytest", *options, *ours, "parsl/tests"]
    subprocess.run(command, cwd=source, env=_environment())
    if not path.exists():
        return {**dict.fromkeys(_COLUMNS, 0), "failures": ["the whole run"], "unmatched": []}
    report: dict[str, Any] = json.loads(path.read_text())
    return report


def _environment() -> dict[str, str]:
    """The plugin is found here, Parsl finds its programs by name, and some tests read the log of single tasks."""
    programs = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    ours = {"PATH": programs, "PYTHONPATH": str(_HERE), "GRISTMILL_LOG_TASKS": "1"}
    return {**os.environ, **ours}


def _print_table(reports: dict[str, dict[str, Any]]) -> None:
    print(f"\n{'run':18}" + "".join(f"{name:>10}" for name in _COLUMNS) + "  Parsl itself")
    for run, report in reports.items():
        beside = reports.get(_BESIDE.get(run, ""))
        itself = "" if beside is None else f"  {beside['passed']} passed, {beside['failed']} failed"
        print(f"{run:18}" + "".join(f"{report[name]:>10}" for name in _COLUMNS) + itself)


def _has_failed(run: str, reports: dict[str, dict[str, Any]]) -> bool:
    report = reports[run]
    itself = reports.get(_BESIDE.get(run, ""), {"failures": []})["failures"]
    for test in report["failures"]:
        print(f"{run}: failed{', as for Parsl itself' if test in itself else ''}: {test}")
    for name in report["unmatched"]:
        print(f"{run}: left out, and names no test: {name}")
    ours = {*report["failures"]} - {*itself} if run in _BESIDE else set()
    return bool(ours or report["unmatched"] or not report["passed"])


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
