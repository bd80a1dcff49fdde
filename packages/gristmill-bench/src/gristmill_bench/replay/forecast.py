"""Recorded runs in virtual time: the real scheduler decides, on any number of nodes.

The scheduler is that of an engine. The costs of workers, links and threads are those of ``costs`` (``crates/replay``).
"""

from __future__ import annotations

from collections.abc import Mapping
from statistics import median
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, model_validator

from gristmill import instruments
from gristmill_bench.apps.replay import Replay
from gristmill_bench.errors import BenchError

_NS = 1e9
#: The most workers: each costs a few hundred bytes, and time before the first task.
_WORKERS_MAX = 5_000_000


class Cluster(BaseModel):
    """The place of a simulated run: nodes, or workers of the program itself."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    #: Number of nodes; ``None``: the workers are the program's own.
    nodes: Annotated[int, Field(ge=1, le=65_535)] | None = None
    #: Workers of each node.
    workers: Annotated[int, Field(ge=1, le=65_535)]
    #: Cores that the program shares with its own workers; ``None``: enough for all.
    cores: Annotated[int, Field(ge=1, le=65_535)] | None = None
    seed: Annotated[int, Field(ge=0, lt=1 << 64)] = 1

    @model_validator(mode="after")
    def _fits(self) -> Cluster:
        if self.worker_count > _WORKERS_MAX:
            raise ValueError(
                f"{self.worker_count:,} workers are more than are simulated, {_WORKERS_MAX:,}"
            )
        return self

    @property
    def worker_count(self) -> int:
        """Number of workers on all nodes."""
        return self.workers * (self.nodes or 1)


def costs(changed: Mapping[str, Any]) -> dict[str, float]:
    """Returns the cost of each step by name: the defaults with changes; raises ``BenchError`` for an unknown cost."""
    known = instruments.replay_costs()
    for name, value in changed.items():
        if name not in known:
            raise BenchError(f"there is no cost.{name}; there are: {', '.join(known)}")
        try:
            known[name] = float(value)
        except (TypeError, ValueError) as error:
            raise BenchError(f"cost.{name}: {value!r} is no number") from error
    return known


def forecast(app: Replay, cluster: Cluster, costs: Mapping[str, float]) -> dict[str, Any]:
    """Simulates the run; returns all figures, in seconds and bytes.

    Raises ``BenchError`` if a cost or the graph is out of bounds.
    """
    recording = app.recording
    functions: dict[str, int] = {}
    is_timed = app.arrivals == "recorded"
    tasks = [
        (
            round(task.seconds * app.scale * _NS),
            round(task.submitted * app.scale * _NS) if is_timed else 0,
            round(task.size * app.size_scale),
            functions.setdefault(task.function, len(functions)),
            list(task.parents),
        )
        for task in recording.tasks
    ]
    place = (cluster.nodes or 0, cluster.workers, cluster.cores)
    try:
        found = instruments.replay_graph(tasks, place, dict(costs), cluster.seed)
    except OverflowError as error:
        raise BenchError(
            f"{recording.source}: times or sizes are beyond what is counted"
        ) from error
    except (ValueError, RuntimeError) as error:
        is_of_cost = str(error).partition(" ")[0] in dict(costs)
        of_what = "cost." if is_of_cost else f"{recording.source}: "
        raise BenchError(of_what + str(error)) from error
    seconds = {
        f"{name.removesuffix('_ns')}_s": value / _NS
        for name, value in found.items()
        if name.endswith("_ns")
    }
    rest = {name: value for name, value in found.items() if not name.endswith("_ns")}
    makespan = seconds["makespan_s"]
    return {
        "tasks": len(tasks),
        **cluster.model_dump(),
        **seconds,
        "utilisation": seconds["work_s"] / (makespan * cluster.worker_count) if makespan else 1.0,
        "recorded_s": None if recording.makespan is None else recording.makespan * app.scale,
        **rest,
        "costs": dict(costs),
    }


def text(found: Mapping[str, Any]) -> str:
    """Returns the figures as a few lines of text."""
    nodes, workers = found["nodes"], found["workers"]
    where = f"{workers:,} workers" if nodes is None else f"{nodes:,} nodes of {workers:,} workers"
    recorded = found["recorded_s"]
    beside = f"recorded {recorded:.4g} s, " if recorded is not None else ""
    counts = sorted(found["tasks_of_nodes"])
    lines = [
        f"{found['tasks']:,} tasks on {where}, simulated (seed {found['seed']})",
        f"makespan {found['makespan_s']:.4g} s: {beside}bound {found['bound_s']:.4g} s, "
        f"critical path {found['critical_path_s']:.4g} s, work {found['work_s']:.4g} s",
        f"workers are used {found['utilisation']:.1%} of the time",
        f"tasks that could run wait {found['wait_mean_s']:.3g} s: median {found['wait_p50_s']:.3g} s, "
        f"99 % {found['wait_p99_s']:.3g} s, longest {found['wait_max_s']:.3g} s",
    ]
    if nodes is not None:
        idle = sum(count == 0 for count in counts)
        lines += [
            f"tasks of a node: {counts[0]:,} to {counts[-1]:,}, median {median(counts):,.0f}; "
            f"{idle:,} nodes had none; {found['given_back']:,} were moved to another node",
            f"bytes to nodes {found['bytes_sent']:,}, from nodes {found['bytes_received']:,}",
        ]
    return "\n".join(lines)
