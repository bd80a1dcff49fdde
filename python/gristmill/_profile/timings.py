"""The time that tasks spend in each component, from their timings.

Source of the idea: "Towards Fine-grained Parallelism in Parallel and Distributed Python Libraries", figure 3, which
shows the average time in each component and channel on a logarithmic axis. Here it is the median and the 95th
percentile: a few late tasks dominate the average of times.
"""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import gristmill
from gristmill import _machine, _resources

#: The first and the last timestamp of each component, and its name.
COMPONENTS = (
    ("submitted", "written", "client: waits for a worker"),
    ("written", "claimed", "ring to the worker"),
    ("claimed", "started", "worker: reads the record"),
    ("started", "ended", "worker: arguments, function, result"),
    ("ended", "published", "worker: publishes the answer"),
    ("published", "drained", "ring to the client"),
)
#: The kind and the version in the first line of a file of timings.
_KIND, _VERSION = "gristmill timings", 2
#: The columns of a plot in the terminal for each power of ten.
_DECADE = 10


class Recorded(NamedTuple):
    """The timings of a run."""

    #: The number of submitted tasks, sampled or not.
    submitted: int
    #: The timings of each sampled task: nanoseconds after its submission. ``at`` is the submission after the program's
    #: start.
    timings: list[dict[str, Any]]
    command: list[str]
    #: The machine in words.
    machine: dict[str, str]


class Hop(NamedTuple):
    """The time of tasks between two timestamps, nanoseconds."""

    name: str
    median: int
    p95: int
    mean: float
    #: The share of the total time of all tasks.
    share: float


class TimingsError(Exception):
    """An error for a file without valid timings. The text says why."""


def machine() -> dict[str, str]:
    """Returns this machine, system and interpreter as reports show them."""
    facts = _machine.facts()
    cores = f"{facts['cores_allowed']} of {facts['cores_online']} cores"
    return {
        "Machine": f"{facts['cpu']}, {cores}, {_resources.memory_of_machine() / 2**30:.1f} GiB",
        "Kernel": str(facts["kernel"]),
        "Python": str(facts["python"]),
        "Gristmill": gristmill.__version__,
    }


def hops(timings: Sequence[dict[str, Any]]) -> list[Hop]:
    """Returns the time of each component; empty if no task has run."""
    if not timings:
        return []
    totals = [sorted(one[end] - one[start] for one in timings) for start, end, _ in COMPONENTS]
    whole = sum(map(sum, totals)) or 1
    return [
        Hop(
            name,
            times[len(times) // 2],
            times[min(len(times) - 1, len(times) * 95 // 100)],
            sum(times) / len(times),
            sum(times) / whole,
        )
        for (_, _, name), times in zip(COMPONENTS, totals, strict=True)
    ]


def table(recorded: Recorded) -> list[str]:
    """Returns the lines of the table and of the plot, for a terminal."""
    found = hops(recorded.timings)
    if not found:
        return [
            f"{recorded.submitted:,} tasks were submitted, and none of the traced tasks has run"
        ]
    lines = [
        f"{recorded.submitted:,} tasks, {len(recorded.timings):,} of them traced",
        f"{'component':<37}{'median us':>11}{'p95 us':>11}{'mean us':>11}{'share':>8}",
    ]
    for hop in found:
        figures = (hop.median / 1e3, hop.p95 / 1e3, hop.mean / 1e3)
        numbers = "".join(f"{figure:>11,.2f}" for figure in figures)
        lines.append(f"{hop.name:<37}{numbers}{100 * hop.share:>7.1f}%")
    return [*lines, "", *_plot(found)]


def decades(found: Sequence[Hop]) -> tuple[int, int]:
    """Returns the powers of ten, of nanoseconds, at which an axis begins and ends; they differ by at least one."""
    times = [time for hop in found for time in (hop.median, hop.p95) if time > 0]
    low = math.floor(math.log10(min(times, default=1)))
    return low, max(low + 1, math.ceil(math.log10(max(times, default=10))))


def label(power: int) -> str:
    """Returns the axis label of a power of ten of nanoseconds."""
    unit, rest = divmod(power, 3)
    return f"{10**rest} {('ns', 'us', 'ms', 's', 'ks', 'Ms')[min(unit, 5)]}"


def _plot(found: Sequence[Hop]) -> list[str]:
    """Returns the plot lines, from the median, ``o``, to the 95th percentile, ``|``, on a logarithmic axis."""
    low, high = decades(found)
    width = (high - low) * _DECADE + 1
    axis = "".join(f"{label(power):<{_DECADE}}" for power in range(low, high + 1))
    lines = [f"{'median o to p95 |':<37}  {axis}".rstrip()]
    for hop in found:
        cells = ["." if place % _DECADE == 0 else " " for place in range(width)]
        first, last = (
            round((math.log10(max(time, 1)) - low) * _DECADE) if time > 0 else -1
            for time in (hop.median, hop.p95)
        )
        if last >= 0:
            for place in range(max(first, 0), last):
                cells[place] = "-"
            cells[last] = "|"
        if first >= 0:
            cells[first] = "o"
        lines.append(f"{hop.name:<37}  {''.join(cells)}".rstrip())
    return lines


def write(file: Path, recorded: Recorded) -> None:
    """Writes a line of JSON about the run, and one for each sampled task."""
    head: dict[str, Any] = {"kind": _KIND, "version": _VERSION}
    head |= {"count": recorded.submitted, "command": recorded.command}
    lines = [head | {"machine": recorded.machine}, *recorded.timings]
    file.write_text("".join(f"{json.dumps(line)}\n" for line in lines), encoding="utf-8")


def is_recorded(file: Path) -> bool:
    """Returns whether the file begins like the files of ``write``."""
    try:
        with file.open("rb") as opened:
            return opened.read(len(_KIND) + 12).startswith(b'{"kind": "%s"' % _KIND.encode())
    except OSError:
        return False


def read(file: Path) -> Recorded:
    """Reads a file of ``write``.

    :raises TimingsError: the file is of another version, or damaged.
    """
    try:
        head, *lines = (json.loads(line) for line in file.read_text("utf-8").splitlines())
        if head["version"] != _VERSION:
            raise TimingsError(f"{file} is of version {head['version']}; this is {_VERSION}")
        needed = {"at"} | {name for start, end, _ in COMPONENTS for name in (start, end)}
        if not all(needed <= line.keys() for line in lines):
            raise TimingsError(f"{file} has tasks without all times")
        found = Recorded(head["count"], lines, head["command"], head["machine"])
    except (ValueError, KeyError, AttributeError, RecursionError) as error:
        raise TimingsError(f"{file} is damaged: {error}") from error
    if not (_has_only(str, found.command) and isinstance(found.machine, dict)):
        raise TimingsError(f"{file} is damaged: the command is not a list of words")
    if not _has_only(str, list(found.machine.values())):
        raise TimingsError(f"{file} is damaged: the description of the machine is not a text")
    times = [line[name] for line in lines for name in needed]
    if not _has_only(int, [found.submitted, *times]):
        raise TimingsError(f"{file} is damaged: its counts and times are not all whole numbers")
    return found


def _has_only(kind: type, items: list[Any]) -> bool:
    """Returns whether ``items`` is a list of values of exactly this type."""
    return type(items) is list and all(type(one) is kind for one in items)
