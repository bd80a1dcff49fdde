"""Timings of tasks as a trace for Perfetto, which shows each sampled task in its components over time."""

from __future__ import annotations

import heapq
from typing import Any

from gristmill._profile.timings import COMPONENTS, Recorded


def document(recorded: Recorded) -> dict[str, Any]:
    """Returns Chrome trace events in microseconds since the program began.

    Each task has one slice, and below it one for each of its components.

    Tasks that overlap are in separate rows: each is in the first row that is free when it is submitted.
    """
    events: list[dict[str, Any]] = [
        {"ph": "M", "name": "process_name", "pid": 1, "args": {"name": "tasks"}}
    ]
    free: list[int] = []
    #: The times at which rows become free, with the rows.
    taken: list[tuple[int, int]] = []
    tasks = sorted(recorded.timings, key=lambda task: task["at"])
    for number, task in enumerate(tasks):
        while taken and taken[0][0] <= task["at"]:
            heapq.heappush(free, heapq.heappop(taken)[1])
        row = heapq.heappop(free) if free else len(taken) + 1
        heapq.heappush(taken, (task["at"] + task["drained"], row))
        events += _slices(task, row, number)
    return {"traceEvents": events, "displayTimeUnit": "ns"}


def _slices(task: dict[str, Any], row: int, number: int) -> list[dict[str, Any]]:
    where = {"ph": "X", "pid": 1, "tid": row}
    whole = {"name": "task", **where, **_time(task, "submitted", "drained")}
    whole["args"] = {"task": number, "worker_state": task.get("worker_state")}
    hops = [
        {"name": name, **where, **_time(task, begin, end)}
        for begin, end, name in COMPONENTS
        if task[end] > task[begin]
    ]
    return [whole, *hops]


def _time(task: dict[str, Any], begin: str, end: str) -> dict[str, float]:
    return {"ts": (task["at"] + task[begin]) / 1e3, "dur": (task[end] - task[begin]) / 1e3}
