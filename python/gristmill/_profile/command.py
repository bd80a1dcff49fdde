"""The command ``gristmill profile``."""

from __future__ import annotations

import argparse
import json
import os
import sys
from pathlib import Path

from gristmill._profile import (
    collector,
    findings,
    launch,
    permission,
    program,
    report,
    rows,
    scratch,
    timeline,
    timings,
)

#: The files that are left in the folder of a profile.
REPORT, TIMELINE, STACKS, PROFILE = "report.html", "timeline.json", "stacks.folded", "profile.json"
#: The highest sampling rate, samples a second. A process cannot bear more.
_RATE_MAX = 1_000


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the arguments of the command."""
    parser.add_argument(
        "--output",
        type=Path,
        metavar="FOLDER",
        help=f"write {REPORT}, {TIMELINE}, {STACKS} and {PROFILE} to this folder",
    )
    parser.add_argument(
        "--quiet", action="store_true", help="print no table; the findings are in --output"
    )
    parser.add_argument(
        "--rate", type=int, default=20, metavar="N", help="samples of py-spy per second (20)"
    )
    parser.add_argument(
        "--native",
        action="store_true",
        help="sample native frames too: processes stop for each sample, and some samples are lost",
    )
    parser.add_argument(
        "--timings", type=int, default=0, metavar="N", help="number of tasks to trace as well (0)"
    )
    parser.add_argument(
        "--compare-gc",
        type=int,
        default=0,
        metavar="N",
        help="afterwards run the program N times with the garbage collector and N times without "
        "it; its output is discarded",
    )
    parser.add_argument(
        "program", help="a Python file, a command that is a Python file, or: -- -m MODULE"
    )
    parser.add_argument("arguments", nargs=argparse.REMAINDER, help="its arguments")


def run(parser: argparse.ArgumentParser, options: argparse.Namespace) -> int:
    """Profiles a program. Returns its exit status, or 2 if there is nothing to profile."""
    if not 1 <= options.rate <= _RATE_MAX:
        parser.error(f"--rate must be between 1 and {_RATE_MAX:,}")
    if min(options.timings, options.compare_gc) < 0:
        parser.error("--timings and --compare-gc must not be negative")
    if options.quiet and options.output is None:
        parser.error("--quiet needs --output")
    try:
        words = program.find([options.program, *options.arguments])
        if options.output is not None:
            options.output.mkdir(parents=True, exist_ok=True)
        looking = launch.Looking(options.rate, options.native, options.timings)
        with scratch.folder(options.output) as folder:
            seen = launch.run(words, looking, folder)
    except (program.NoProgram, permission.CannotProfile, OSError) as error:
        print(f"gristmill profile: {error}", file=sys.stderr)
        return 2
    found, status = _findings(words, looking, seen, options.compare_gc)
    if not options.quiet:
        print("\n".join(findings.table(found)), file=sys.stderr)
    if options.output is not None:
        try:
            _write(options.output, found)
        except OSError as error:
            where = error.filename or options.output
            print(f"gristmill profile: cannot write {where}: {error.strerror}", file=sys.stderr)
            return status or 1
        if not options.quiet:
            print(options.output / REPORT, file=sys.stderr)
    return status


def _findings(
    words: list[str], looking: launch.Looking, seen: launch.Seen, repeats: int
) -> tuple[findings.Findings, int]:
    """Combines the results. Returns them with the exit status."""
    found = rows.of(seen, looking.is_native)
    status = seen.status if seen.status >= 0 else 128 - seen.status
    traced = comparison = None
    notes = _notes(looking, seen)
    if looking.sample and seen.notes is not None:
        traced = timings.Recorded(
            seen.notes["tasks"], seen.notes["timings"], words, timings.machine()
        )
    if repeats and status == 0:
        try:
            comparison = collector.compare(words, repeats)
        except collector.CannotCompare as error:
            notes.append(f"no comparison of collectors: {error}")
            status = 1
    command = ["gristmill", *sys.argv[1:]]
    return findings.Findings(
        words, command, looking, seen, found, traced, comparison, notes
    ), status


def _notes(looking: launch.Looking, seen: launch.Seen) -> list[str]:
    """Returns the notes for readers of the profile."""
    notes = []
    if not seen.stacks:
        notes.append(f"py-spy has seen no stacks: {seen.said or 'the program was too short'}")
    if looking.is_native and seen.said:
        notes.append(f"With native frames some samples are lost: {seen.said}.")
    if seen.watch.is_refused:
        notes.append("The kernel did not report the system calls in which some threads slept.")
    if any(thread.is_cut for thread in seen.watch.threads.values()):
        notes.append(f"{TIMELINE} reached its size limit and ends before the run.")
    if seen.notes is None:
        notes.append(
            "The program was killed or ended itself abruptly: its objects were not counted."
        )
    return notes


def _write(folder: Path, found: findings.Findings) -> None:
    names = timeline.names_of(found.rows)
    # Words of a command can contain bytes that are not text.
    page = report.of_profile(found)
    (folder / REPORT).write_text(page, encoding="utf-8", errors="backslashreplace")
    (folder / TIMELINE).write_text(json.dumps(timeline.document(found.seen, names)))
    (folder / STACKS).write_text("".join(f"{line}\n" for line in found.seen.stacks), "utf-8")
    document = {
        "command": found.command,
        "status": found.seen.status,
        "seconds": found.seen.seconds,
        "cores": os.cpu_count(),
        "rows": [
            {
                "process": row.process,
                "thread": row.thread,
                "threads": row.threads,
                "looks": row.samples,
                "has_stacks": row.has_stacks,
                "categories": row.categories,
                "states": row.states,
                "cpu_seconds": row.cpu_s,
            }
            for row in found.rows
        ],
        "garbage": None if found.seen.notes is None else found.seen.notes["garbage"],
        "timings": None
        if found.timings is None
        else [one._asdict() for one in timings.hops(found.timings.timings)],
        "comparison": None if found.comparison is None else found.comparison._asdict(),
        "notes": found.notes,
    }
    (folder / PROFILE).write_text(json.dumps(document, indent=2))
