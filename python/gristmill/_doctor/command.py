"""The ``gristmill doctor`` command: it runs all checks, prints the findings, and ends with 1 if something fails."""

from __future__ import annotations

import argparse
import os
import sys

from gristmill._doctor import images, machine, trials

TYPE_CHECKING = False
if TYPE_CHECKING:
    from gristmill._doctor.findings import Finding

_LOOKS = (
    machine.versions,
    machine.cores_and_memory,
    machine.limits,
    machine.kernel,
    machine.network,
    images.disk,
    images.ways,
    trials.surroundings,
    trials.here,
    trials.node,
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the arguments of the command."""
    parser.add_argument(
        "--report",
        metavar="FILE",
        help="writes a report for a bug report: the findings, the settings and the versions",
    )


def run(options: argparse.Namespace) -> int:
    """Runs all checks and returns the exit status."""
    found: list[Finding] = []
    for look in _LOOKS:
        for finding in look():
            found.append(finding)
            print(finding, flush=True)
    is_written = options.report is None or _write(options.report, found)
    count = sum(finding.grade == "bad" for finding in found)
    if count:
        print(f"{count} of these must be repaired before the engine can run", file=sys.stderr)
    return 1 if count or not is_written else 0


def _write(path: str, found: list[Finding]) -> bool:
    """Writes the report. If that fails, prints the reason and returns ``False``."""
    text = "\n".join([*map(str, found), "", *_details(), ""])
    try:
        with open(path, "w") as file:
            file.write(text)
    except OSError as error:
        print(f"gristmill doctor: cannot write {path}: {error.strerror}", file=sys.stderr)
        return False
    return True


def _details() -> list[str]:
    """Returns facts about this process. Of the environment they have only the names, since values can be secrets."""
    made = ["environment: " + " ".join(sorted(os.environ))]
    for path in ("/proc/self/limits", "/proc/self/cgroup", "/proc/self/status"):
        try:
            with open(path) as file:
                made += [path, file.read()]
        except OSError as error:
            made.append(f"{path}: {error}")
    return made
