"""Runs of tasks that do little, of which nothing is noted, and how many a second an engine manages."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from gristmill.bench.figures.figure import Sweep
from gristmill.bench.figures.session import Summary, Tables

#: Engines of others that the papers compare.
OTHERS = ("parsl", "ray", "dask")
#: Tasks of a run, by engine: fewer where each takes milliseconds, so that runs last about as long.
_TASKS = {
    "inline": 100_000,
    "gristmill": 100_000,
    "threads": 20_000,
    "processes": 10_000,
    "loky": 5_000,
}
_TASKS_OF_OTHERS = 1_000
_NONE: Mapping[str, Any] = MappingProxyType({})


def tasks_for(executor: str) -> int:
    """How many tasks fill a run of a second or a few."""
    return _TASKS.get(executor, _TASKS_OF_OTHERS)


def bare(
    app: dict[str, Any], executor: str, workers: int, fields: Mapping[str, Any] = _NONE
) -> Tables:
    """A run of an application of which nothing is noted, on an executor with further fields, or another name."""
    return {
        "app": app,
        "executor": {"name": executor, "workers": workers, **fields},
        "records": {"name": "none"},
    }


class Rate(Sweep):
    """A figure of tasks a second."""

    upward = "tasks/s"

    def value(self, summary: Summary) -> float:
        """Of the phase in which the application runs."""
        return float(summary["tasks_per_second"])
