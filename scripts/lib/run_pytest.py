"""Runs pytest; one or two tests that fail are run once more, alone, after the others.

What passes then is printed as `FLAKY test-id` and forgiven, except with `--strict` or `GRISTMILL_STRICT` in the
environment. A failure that may hide a lost task or a crash is never forgiven: a hang, a death by a signal, a pytest
worker that crashed, an error of collection. `GRISTMILL_OUTCOMES` names a folder that several runs share: they forgive
two tests together, and leave there what failed and what was flaky, each with the command that repeats it.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import sys
import tempfile
from dataclasses import dataclass, field
from pathlib import Path

# Tests that all runs of one gate may forgive together.
FORGIVEN_MAX = 2

# Messages of failures that are never forgiven, and what the output of such a test shows.
UNFORGIVABLE = re.compile(
    r"time[- ]?d?[ -]?out|watchdog|\bhang|\bhung\b|crashed|\bsignal|SIG[A-Z]{3,}|panicked|"
    r"WorkerLost|BrokenProcessPool|BrokenExecutor|returncode=-|exit (code|status) -|assert -\d+ [=!]=|[=!]= -\d+",
    re.IGNORECASE,
)
CRASH = re.compile(
    r"Fatal Python error|Segmentation fault|core dumped|panicked at|from pytest-timeout"
)


@dataclass
class Failure:
    """A test that failed, with the texts of all its failed phases."""

    test: str
    messages: list[str] = field(default_factory=list)
    output: str = ""
    is_collection: bool = False

    @property
    def unforgivable(self) -> str:
        """The reason why it is not run once more; empty if it may be."""
        if self.is_collection:
            return "error of collection"
        for message in self.messages:
            if found := UNFORGIVABLE.search(message):
                return f"its message has {found.group()!r}"
        if found := CRASH.search(self.output):
            return f"its output has {found.group()!r}"
        return ""


def messages_of(longrepr: object) -> list[str]:
    """Returns the messages of the exceptions in a report, of those that led to others too."""
    if not isinstance(longrepr, dict):
        return [str(longrepr)]
    crashes = [link[1] for link in longrepr.get("chain") or []] + [longrepr.get("reprcrash")]
    return [crash["message"] for crash in crashes if crash]


def read(log: Path) -> dict[str, Failure]:
    """Returns the failures in a report log, by test."""
    failures: dict[str, Failure] = {}
    for line in log.read_text().splitlines():
        report = json.loads(line)
        if report.get("outcome") != "failed":
            continue
        failure = failures.setdefault(report["nodeid"], Failure(report["nodeid"]))
        failure.messages += messages_of(report["longrepr"])
        failure.output += "".join(text for _, text in report.get("sections") or [])
        failure.is_collection |= report["$report_type"] == "CollectReport"
    return failures


def command(test: str) -> list[str]:
    """Returns the command that runs one test alone."""
    return [sys.executable, "-m", "pytest", "-q", test]


def passes(test: str) -> bool:
    """Runs one test alone; returns whether it ran and passed."""
    with tempfile.TemporaryDirectory() as folder:
        log = Path(folder) / "report"
        done = subprocess.run([*command(test), f"--report-log={log}"], check=False)
        calls = (
            [json.loads(line) for line in log.read_text().splitlines()]
            if done.returncode == 0
            else []
        )
    return any(one.get("when") == "call" and one["outcome"] == "passed" for one in calls)


def outcomes(kind: str) -> Path | None:
    """Returns the file of the shared folder with outcomes of this kind."""
    folder = os.environ.get("GRISTMILL_OUTCOMES")
    return Path(folder) / kind if folder else None


def note(kind: str, tests: list[str]) -> None:
    """Appends the commands of these tests to the file of this kind, if a folder is shared."""
    if (file := outcomes(kind)) is not None:
        with file.open("a") as lines:
            lines.writelines(shlex.join(["python", *command(test)[1:]]) + "\n" for test in tests)


def forgiven_before() -> int:
    """Returns how many tests the other runs of this gate forgave."""
    file = outcomes("flaky")
    return len(file.read_text().splitlines()) if file is not None and file.exists() else 0


def is_forgiven(failures: dict[str, Failure]) -> bool:
    """Runs the failed tests once more, if that is allowed; returns whether all passed then."""
    for failure in failures.values():
        if failure.unforgivable:
            print(f"not forgiven: {failure.test}: {failure.unforgivable}")
            return False
    if not failures or len(failures) + forgiven_before() > FORGIVEN_MAX:
        return False
    print(f"once more, alone: {' '.join(failures)}", flush=True)
    return all(passes(test) for test in failures)


def main(arguments: list[str]) -> int:
    """Runs pytest with these arguments; returns its exit status, 0 if all that failed is forgiven."""
    is_strict = "--strict" in arguments or "GRISTMILL_STRICT" in os.environ
    arguments = [argument for argument in arguments if argument != "--strict"]
    with tempfile.TemporaryDirectory() as folder:
        log = Path(folder) / "report"
        run = [sys.executable, "-m", "pytest", "-q", *arguments, f"--report-log={log}"]
        status = subprocess.run(run, check=False).returncode
        failures = read(log) if log.exists() else {}
    # Other statuses than 1: no test, wrong arguments, an interrupt, a death by a signal.
    if status == 1 and not is_strict and is_forgiven(failures):
        for test in failures:
            print(f"FLAKY {test}", flush=True)
        note("flaky", list(failures))
        return 0
    note("failed", list(failures))
    return status if status >= 0 else 128 - status


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
