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
    tags,
    timeline,
)

#: Files that are left in the folder of a profile.
REPORT, TIMELINE, STACKS, PROFILE = "report.html", "timeline.json", "stacks.folded", "profile.json"
#: More looks than a process can bear.
_RATE_MAX = 1_000


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds what can be asked for."""
    parser.add_argument(
        "--output",
        type=Path,
        metavar="FOLDER",
        help=f"leave {REPORT}, {TIMELINE}, {STACKS}, {PROFILE} there",
    )
    parser.add_argument(
        "--quiet", action="store_true", help="print no table: what was found is in --output"
    )
    parser.add_argument(
        "--rate", type=int, default=20, metavar="N", help="looks of py-spy a second (20)"
    )
    parser.add_argument(
        "--native",
        action="store_true",
        help="look at native frames too: processes stop for each look, and some looks are lost",
    )
    parser.add_argument(
        "--tags", type=int, default=0, metavar="N", help="trace a sample of so many tasks too (0)"
    )
    parser.add_argument(
        "--compare-gc",
        type=int,
        default=0,
        metavar="N",
        help="afterwards run the program N times with and N times without the collector of garbage, its output lost",
    )
    parser.add_argument("program", help="a Python file, a command that is one, or: -- -m MODULE")
    parser.add_argument("arguments", nargs=argparse.REMAINDER, help="its arguments")


def run(parser: argparse.ArgumentParser, options: argparse.Namespace) -> int:
    """Profiles a program; gives its exit status, or 2 if there is nothing to profile."""
    if not 1 <= options.rate <= _RATE_MAX:
        parser.error(f"--rate must be between 1 and {_RATE_MAX:,}")
    if min(options.tags, options.compare_gc) < 0:
        parser.error("--tags and --compare-gc must not be negative")
    if options.quiet and options.output is None:
        parser.error("--quiet would lose all without --output")
    try:
        words = program.find([options.program, *options.arguments])
        if options.output is not None:
            options.output.mkdir(parents=True, exist_ok=True)
        looking = launch.Looking(options.rate, options.native, options.tags)
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
            print(f"gristmill profile: {error}", file=sys.stderr)
            return status or 1
        if not options.quiet:
            print(options.output / REPORT, file=sys.stderr)
    return status


def _findings(
    words: list[str], looking: launch.Looking, seen: launch.Seen, repeats: int
) -> tuple[findings.Findings, int]:
    """What was seen, put together; and the exit status."""
    found = rows.of(seen, looking.is_native)
    status = seen.status if seen.status >= 0 else 128 - seen.status
    traced = comparison = None
    notes = _notes(looking, seen)
    if looking.sample and seen.notes is not None:
        traced = tags.Recorded(seen.notes["tasks"], seen.notes["tags"], words, tags.machine())
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
    """What a reader should know."""
    notes = []
    if not seen.stacks:
        notes.append(f"py-spy has seen no stacks: {seen.said or 'the program was too short'}")
    if looking.is_native and seen.said:
        notes.append(f"With native frames some looks are lost: {seen.said}.")
    if seen.watch.is_refused:
        notes.append("The kernel did not say what some threads slept in.")
    if any(thread.is_cut for thread in seen.watch.threads.values()):
        notes.append(f"There was more to see than {TIMELINE} has: it ends before the run.")
    if seen.notes is None:
        notes.append("The program did not come to an orderly end: its objects were not counted.")
    return notes


def _write(folder: Path, found: findings.Findings) -> None:
    names = timeline.names_of(found.rows)
    # Words of a command need not be text.
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
        "tags": None
        if found.tags is None
        else [one._asdict() for one in tags.hops(found.tags.tags)],
        "comparison": None if found.comparison is None else found.comparison._asdict(),
        "notes": found.notes,
    }
    (folder / PROFILE).write_text(json.dumps(document, indent=2))
