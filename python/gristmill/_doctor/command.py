"""The command: looks at everything, says what it found, and ends with 1 if something does not work."""

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
    """Says what the command understands."""
    parser.add_argument(
        "--report",
        metavar="FILE",
        help="writes what was found, and what helps to understand it, for a bug report",
    )


def run(options: argparse.Namespace) -> int:
    """Looks; gives the exit status."""
    found: list[Finding] = []
    for look in _LOOKS:
        for finding in look():
            found.append(finding)
            print(finding, flush=True)
    if options.report is not None:
        with open(options.report, "w") as file:
            file.write("\n".join([*map(str, found), "", *_details(), ""]))
    count = sum(finding.grade == "bad" for finding in found)
    if count:
        print(f"{count} of these must be mended before the engine can be used", file=sys.stderr)
    return 1 if count else 0


def _details() -> list[str]:
    """Facts of this process; of the environment only the names, since values can be secrets."""
    made = ["environment: " + " ".join(sorted(os.environ))]
    for path in ("/proc/self/limits", "/proc/self/cgroup", "/proc/self/status"):
        try:
            with open(path) as file:
                made += [path, file.read()]
        except OSError as error:
            made.append(f"{path}: {error}")
    return made
