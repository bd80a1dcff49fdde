"""The results of a profile, and the part of them that a terminal shows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from gristmill._profile import timings
from gristmill._profile.categories import CATEGORIES
from gristmill._profile.collector import Comparison
from gristmill._profile.launch import Looking, Seen
from gristmill._profile.rows import Row

#: The short column names that make a table of ten columns fit a terminal.
_SHORT = ("poll", "recv", "send", "queue", "sem", "serial", "log", "engine", "stdlib", "prog")


@dataclass(frozen=True)
class Findings:
    """The results of a profile. ``command`` is the whole command line, ``program`` its profiled part."""

    program: list[str]
    command: list[str]
    looking: Looking
    seen: Seen
    rows: list[Row]
    timings: timings.Recorded | None = None
    comparison: Comparison | None = None
    #: Notes for the reader on how the results were obtained.
    notes: list[str] = field(default_factory=list)


def table(found: Findings) -> list[str]:
    """Returns the lines for a terminal."""
    seen = found.seen
    lines = [f"{seen.seconds:.2f} s; for each thread, the percentage of its time in each category"]
    return [
        *lines,
        *_rows(found.rows),
        *_garbage(found),
        *(timings.table(found.timings) if found.timings is not None else []),
        *found.notes,
    ]


def _rows(rows: Sequence[Row]) -> list[str]:
    process = max((len(row.process) for row in rows), default=7)
    thread = min(28, max((len(row.thread) for row in rows), default=6))
    head = "".join(f"{name:>7}" for name in _SHORT)
    lines = [f"{'process':<{process}}  {'thread':<{thread}}{'n':>3}{head}{'GIL':>6}{'cpu s':>8}"]
    for row in rows:
        shares = "".join(
            f"{100 * row.share(one):>7.1f}" if row.share(one) else f"{'.':>7}" for one in CATEGORIES
        )
        lock = row.interpreter_share
        waits = "" if lock is None else f"{100 * lock:.0f}"
        lines.append(
            f"{row.process:<{process}}  {row.thread[:thread]:<{thread}}{row.threads:>3}{shares}"
            f"{waits:>6}{row.cpu_s:>8.2f}"
        )
    return lines


def _garbage(found: Findings) -> list[str]:
    if found.seen.notes is None:
        return []
    garbage = found.seen.notes["garbage"]
    counts = [one[1] for one in garbage["counts"]]
    collections = " + ".join(f"{one['collections']:,}" for one in garbage["generations"])
    spent = sum(one["seconds"] for one in garbage["generations"])
    lines = [
        f"tracked objects: {counts[0]:,} at first, {max(counts):,} at most, {counts[-1]:,} at last; "
        f"{collections} collections took {spent:.3f} s, {spent / max(garbage['seconds'], 1e-9):.1%}"
    ]
    if found.timings is not None and found.timings.submitted:
        lines.append(
            f"{(max(counts) - counts[0]) / found.timings.submitted:.2f} more objects a task at most"
        )
    if found.comparison is not None:
        lines.append(found.comparison.text())
    return lines
