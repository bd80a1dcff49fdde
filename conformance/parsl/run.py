"""Runner of Parsl's released tests on Parsl, our executor and our kernel: ``run.py [upstream|a|b|c|d]...``.

=========  ==================  =========================================
upstream   Parsl's kernel      its threads, its processes, its local tests
a          Parsl's kernel      our executor
b          our kernel          Parsl's threads
c          our kernel          our executor
d          our kernel          its local tests
=========  ==================  =========================================

The program prints a table. Each row also shows the result of Parsl itself, from this run or from the last run of
upstream on this machine. The program fails in two cases: a test of a, b, c or d fails that is not excluded and passes
with Parsl itself; or an entry in the list of excluded tests matches no test.
"""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path

_HERE = Path(__file__).parent
sys.path.insert(0, str(_HERE.parent))

import tally  # noqa: E402
import watch  # noqa: E402
from release import Release  # noqa: E402
from tally import Tally  # noqa: E402

_RELEASE = Release(
    "parsl", "2026.10.26", "8a0550a51dace16bb1c79b2538de55cb9e72bdb1748c9b9c1a733718a019d1f1"
)
_FOLDER = _HERE.parent.parent / "target" / "conform"
_OURS = str(_HERE / "configs" / "gristmill_executor.py")
_THREADS = "parsl/tests/configs/local_threads.py"

#: Runs of each mode by name, with their configurations.
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
#: Run of Parsl itself that each of our runs is compared with.
_BESIDE = {
    "a": "upstream-htex",
    "b": "upstream-threads",
    "c": "upstream-htex",
    "d": "upstream-local",
}
_PARSL = "{passed} passed, {failed} failed"
_COLUMNS = ("collected", "passed", "failed", "skipped", "left out")


def main(modes: list[str]) -> int:
    """Runs the modes, or all modes if none is given. Returns the exit code."""
    unknown = set(modes) - set(_MODES)
    if unknown:
        raise SystemExit(
            f"no such mode: {', '.join(sorted(unknown))}; there are {', '.join(_MODES)}"
        )
    source = _RELEASE.unpack(_FOLDER)
    seconds = {}
    for mode in modes or _MODES:
        for run, config in _MODES[mode].items():
            began = time.monotonic()
            _run(run, config, source)
            seconds[run] = time.monotonic() - began
    _print_table(seconds)
    return int(any([_has_failed(run) for run in seconds]))


def _run(run: str, config: str, source: Path) -> None:
    print(f"== {run}: --config {config}", flush=True)
    path = _path_of(run)
    options = ["-c", str(_HERE / "pytest.ini"), "--rootdir", ".", f"--config={config}"]
    ours = ["-p", "counted_run", "-p", "adapter", "--conformance-run", run]
    ours += ["--conformance-tally", str(path), "--conformance-below", "parsl/tests/"]
    ours += ["--conformance-left-out", str(_HERE / "left-out.toml")]
    command = [sys.executable, "-m", "pytest", *options, *ours, "parsl/tests"]
    watch.run(command, source, _environment(), path)


def _path_of(run: str) -> Path:
    return _FOLDER / f"{run}-{_RELEASE.version}.tally"


def _environment() -> dict[str, str]:
    """Returns the environment of pytest, in which it finds the plugins and Parsl finds its programs.

    Some tests read the log of single tasks, so the log is on.
    """
    programs = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    modules = f"{_HERE}{os.pathsep}{_HERE.parent}"
    ours = {"PATH": programs, "PYTHONPATH": modules, "GRISTMILL_LOG_TASKS": "1"}
    return {**os.environ, **ours}


def _parsl_itself(run: str) -> Tally | None:
    """Returns the results of Parsl itself that a run is compared with; ``None`` if it has not run to its end."""
    path = _path_of(_BESIDE.get(run, "nothing"))
    known = tally.read(path) if path.exists() else Tally()
    return known if known.has_ended else None


def _print_table(seconds: dict[str, float]) -> None:
    print(f"\n{'run':18}" + "".join(f"{name:>10}" for name in (*_COLUMNS, "seconds")), end="")
    print("  Parsl itself")
    for run, duration in seconds.items():
        numbers = tally.read(_path_of(run)).numbers()
        print(f"{run:18}" + "".join(f"{numbers[name]:>10}" for name in _COLUMNS), end="")
        itself = _parsl_itself(run)
        beside = "" if itself is None else _PARSL.format_map(itself.numbers())
        print(f"{duration:>10.0f}  {beside}")


def _has_failed(run: str) -> bool:
    known, itself = tally.read(_path_of(run)), _parsl_itself(run) or Tally()
    for test in known.failures:
        also = ", as for Parsl itself" if test in itself.failures else ""
        how = f" (pytest {known.deaths[test]})" if test in known.deaths else ""
        print(f"{run}: failed{also}: {test}{how}")
    for name in known.unmatched:
        print(f"{run}: left out, and names no test: {name}")
    ours = {*known.failures} - {*itself.failures} if run in _BESIDE else set()
    return bool(ours or known.unmatched or not known.numbers()["passed"])


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
