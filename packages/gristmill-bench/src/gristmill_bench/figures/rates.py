"""Runs of short tasks without records, and the rate at which an engine runs them."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from gristmill_bench.figures.figure import Sweep
from gristmill_bench.figures.session import Summary, Tables

#: Engines of other projects that the papers compare.
OTHERS = ("parsl", "ray", "dask")
#: Tasks of a run, by engine: fewer if each takes milliseconds, so that all runs last about as long.
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
    """Returns how many tasks fill a run of one second to a few seconds."""
    return _TASKS.get(executor, _TASKS_OF_OTHERS)


def bare(
    app: dict[str, Any], executor: str, workers: int, fields: Mapping[str, Any] = _NONE
) -> Tables:
    """Returns the tables of a run without records.

    ``fields`` are added to the executor's table, and may replace its name.
    """
    return {
        "app": app,
        "executor": {"name": executor, "workers": workers, **fields},
        "records": {"name": "none"},
    }


class Rate(Sweep):
    """A figure of tasks a second."""

    upward = "tasks/s"

    def value(self, summary: Summary) -> float:
        """Returns the rate in the phase in which the application runs."""
        return float(summary["tasks_per_second"])
