"""A profile as a trace for Perfetto: the state of each thread over time, as the kernel reports it."""

from __future__ import annotations

from typing import Any

from gristmill._profile import kernel
from gristmill._profile.launch import Seen
from gristmill._profile.rows import Row

#: The names of slices, by state.
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
    """Returns Chrome trace events, in microseconds since the program began.

    :param names: for each process and thread, the purpose of the process and the name of the thread.
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
    """Returns the tracked objects as a counter of the program."""
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
    """Returns the names of processes and threads, from the rows of a profile."""
    return {key: (row.process, row.thread) for row in rows for key in row.members}
