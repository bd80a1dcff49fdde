"""The command: arguments, exit status, and what is printed."""

from __future__ import annotations

import argparse
import resource
import sys
import tempfile
import time
from pathlib import Path

from chaos.campaign import Campaign, Report, Terms
from chaos.mixture import Mode, draw_executor, root_of

#: Number of complaints that are printed.
_PRINTED = 40
#: Exit status of a campaign that found a broken rule.
BROKEN = 1


def main(arguments: list[str]) -> int:
    """Runs a campaign; returns its exit status. A hang ends the process with ``watchdog.HUNG``."""
    terms = _parse(arguments)
    # Tasks that crash leave no files.
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    sys.stdout.reconfigure(line_buffering=True)  # type: ignore[union-attr]
    print(f"{terms.command}: {draw_executor(terms.mode, terms.seed)}")
    began = time.monotonic()
    # Not in the folder of temporary files, which has to be empty at the end.
    with tempfile.TemporaryDirectory(prefix="chaos-", ignore_cleanup_errors=True) as folder:
        try:
            report = Campaign(terms, Path(folder)).run()
        except BaseException:
            print(f"The campaign ended early. Repeat: {terms.command}")
            raise
    print(f"{time.monotonic() - began:.0f} s")
    print(describe(terms, report))
    return BROKEN if report.complaints else 0


def describe(terms: Terms, report: Report) -> str:
    """Returns the text about a campaign: its counts, each broken rule, and the command that repeats it."""
    lines = [
        f"tasks that {ending.value}: {count}" for ending, count in report.endings.most_common()
    ]
    lines += [f"fault: {kind}: {count}" for kind, count in report.faults.most_common()]
    lines.append(
        f"{report.ran} tasks and children ran, {report.runs} times;"
        f" the client's memory grew by {report.growth >> 10} KiB"
    )
    stats = report.stats
    lines.append(
        f"{stats.workers_lost} workers died, {stats.workers_killed} were killed by the engine;"
        f" {stats.replaced} tasks came back unstarted, {stats.loss_retries} were repeated"
    )
    for complaint in report.complaints[:_PRINTED]:
        about = "BROKEN"
        if complaint.number is not None:
            plan = terms.plan_of(root_of(complaint.number))
            about += f" seed {terms.seed}, task {complaint.number} ({plan.kind}, loss_retries={plan.loss_retries})"
        lines.append(f"{about}: {complaint.text}")
    if report.complaints:
        lines.append(f"{len(report.complaints)} broken rules. Repeat: {terms.command}")
    return "\n".join(lines)


def _parse(arguments: list[str]) -> Terms:
    parser = argparse.ArgumentParser(prog="./dev chaos", description=__doc__)
    parser.add_argument("mode", nargs="?", type=Mode, choices=list(Mode), default=Mode.LOCAL)
    parser.add_argument("--tasks", type=int, default=20_000, help="the number of tasks")
    parser.add_argument("--seed", type=int, default=1, help="the seed of tasks and faults")
    parser.add_argument(
        "--patience", type=float, default=120.0, help="seconds without progress that are a hang"
    )
    given = parser.parse_args(arguments)
    if given.tasks < 1:
        parser.error("--tasks is at least 1")
    return Terms(given.mode, given.tasks, given.seed, given.patience)
