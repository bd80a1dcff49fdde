"""All that a profile has found, and what of it a terminal shows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from gristmill._profile import tags
from gristmill._profile.categories import CATEGORIES
from gristmill._profile.collector import Comparison
from gristmill._profile.launch import Looking, Seen
from gristmill._profile.rows import Row

#: What the columns of a terminal are called: a table of ten has to fit.
_SHORT = ("poll", "recv", "send", "queue", "sem", "serial", "log", "engine", "stdlib", "prog")


@dataclass(frozen=True)
class Findings:
    """A profile. ``command`` is all of it, ``program`` what was run by it."""

    program: list[str]
    command: list[str]
    looking: Looking
    seen: Seen
    rows: list[Row]
    tags: tags.Recorded | None = None
    comparison: Comparison | None = None
    #: What a reader should know of how it was found.
    notes: list[str] = field(default_factory=list)


def table(found: Findings) -> list[str]:
    """The lines for a terminal."""
    seen = found.seen
    lines = [f"{seen.seconds:.2f} s, of each thread the percentage of its time in each category"]
    return [
        *lines,
        *_rows(found.rows),
        *_garbage(found),
        *(tags.table(found.tags) if found.tags is not None else []),
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
    if found.tags is not None and found.tags.submitted:
        lines.append(
            f"{(max(counts) - counts[0]) / found.tags.submitted:.2f} more objects a task at most"
        )
    if found.comparison is not None:
        lines.append(found.comparison.text())
    return lines
