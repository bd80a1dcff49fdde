"""A profile as a trace for Perfetto: what each thread did when, by what the kernel says."""

from __future__ import annotations

from typing import Any

from gristmill._profile import kernel
from gristmill._profile.launch import Seen
from gristmill._profile.rows import Row

#: Names of slices.
_NAMES = {
    kernel.RUNS: "runs",
    kernel.INTERPRETER: "waits for the interpreter's lock",
    "poll": "polls",
    "receive": "receives",
    "send": "sends",
    "semaphore": "waits for a lock",
    "standard library": "sleeps for a time",
    kernel.SLEEPS: "sleeps",
}


def document(seen: Seen, names: dict[tuple[int, int], tuple[str, str]]) -> dict[str, Any]:
    """Trace events of Chrome, in microseconds since the program began.

    :param names: of each process and thread: what the process is, and what the thread is called.
    """
    events: list[dict[str, Any]] = []
    for (process, number), thread in sorted(seen.watch.threads.items()):
        if process in seen.own or not thread.timeline:
            continue
        of_process, of_thread = names.get((process, number), ("process", thread.name))
        where = {"pid": process, "tid": number}
        events += [
            {"ph": "M", "name": "process_name", **where, "args": {"name": of_process}},
            {"ph": "M", "name": "thread_name", **where, "args": {"name": of_thread}},
        ]
        events += [
            {"ph": "X", "name": _NAMES.get(one.state, one.state), **where}
            | {"ts": (one.begin - seen.begun) * 1e6, "dur": max(one.end - one.begin, 1e-6) * 1e6}
            for one in thread.timeline
        ]
    events += _objects(seen)
    return {"traceEvents": events, "displayTimeUnit": "ms"}


def _objects(seen: Seen) -> list[dict[str, Any]]:
    """Tracked objects as a counter of the program."""
    if seen.notes is None:
        return []
    garbage = seen.notes["garbage"]
    late = garbage["begun"] - seen.begun
    return [
        {"ph": "C", "name": "tracked objects", "pid": seen.program, "ts": (late + seconds) * 1e6}
        | {"args": {"objects": tracked}}
        for seconds, tracked, _ in garbage["counts"]
    ]


def names_of(rows: list[Row]) -> dict[tuple[int, int], tuple[str, str]]:
    """What processes and threads are called, from the rows of a profile."""
    return {key: (row.process, row.thread) for row in rows for key in row.members}
