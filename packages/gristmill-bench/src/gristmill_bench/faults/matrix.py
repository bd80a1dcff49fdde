"""The failure matrix: every kind of failure on every executor, each in a run of its own, judged by its evidence."""

from __future__ import annotations

import platform
import sys
from collections.abc import Sequence
from importlib.metadata import version
from pathlib import Path
from time import monotonic
from typing import Any, NamedTuple

from gristmill_bench import apart, config, environment, plugins, run
from gristmill_bench.config import Benchmark
from gristmill_bench.errors import BenchError, RunFailed
from gristmill_bench.executors.base import ExecutorPlugin
from gristmill_bench.faults import evidence, tables
from gristmill_bench.faults.kinds import FAILURE_KINDS
from gristmill_bench.faults.tables import Cell, Matrix
from gristmill_bench.faults.verdict import Verdict, Word, judge

#: Types of failure that can be chosen.
TYPES = (*FAILURE_KINDS, "random")
#: The default run: one task of twenty fails, and with this seed it fails while most others wait.
_DEFAULTS: dict[str, dict[str, Any]] = {
    "app": {
        "name": "failures",
        "base": "synthetic",
        "config": {"tasks": 20, "sleep": 0.02},
        "rate": 0.05,
        "seed": 10,
    },
    "run": {"timeout": 60.0},
}
#: The share of failing tasks for the type ``random``, so that several kinds are drawn.
_RANDOM_RATE = 0.2
#: Executors that are measured only if named: they have no workers.
_NOT_ALL = {"inline"}


class Column(NamedTuple):
    """An executor with its fields."""

    name: str
    fields: dict[str, Any]

    @property
    def label(self) -> str:
        """The name of the column in tables."""
        return " ".join([self.name, *(f"{name}={value}" for name, value in self.fields.items())])


def columns(names: Sequence[str] | None) -> list[Column]:
    """Returns the named executors, or all that can be opened here without fields, each in all of its ways."""
    found = []
    for name in names if names is not None else plugins.names("executor"):
        plugin = plugins.find("executor", name)
        if not issubclass(plugin, ExecutorPlugin):
            raise BenchError(f"executor {name!r} is no ExecutorPlugin")
        if names is not None or (name not in _NOT_ALL and _is_ready(plugin)):
            found += [Column(name, fields) for fields in plugin.ways]
    return found


def _is_ready(plugin: type[ExecutorPlugin]) -> bool:
    """Returns whether an executor can be opened as it is: nothing is missing, and it has no required fields."""
    is_told = not any(field.is_required() for field in plugin.model_fields.values())
    return is_told and plugin.missing() is None


def measure(
    chosen: dict[str, dict[str, Any]], measured: list[Column], types: Sequence[str], repeats: int
) -> tuple[Path, Matrix]:
    """Runs all cells, in turns; returns the folder and the results.

    Raises ``BenchError`` before the first run if a cell cannot be run.
    """
    unknown = sorted(set(types) - set(TYPES))
    if unknown:
        raise BenchError(f"there is no type {unknown[0]!r}; there are: {', '.join(TYPES)}")
    app = chosen.get("app", {})
    if app.get("name", "failures") != "failures" or "type" in app:
        raise BenchError(
            "a matrix is of the application failures: app.base is what fails, --types say how"
        )
    # If this machine has namespaces, all cells use them: killed processes then leave nothing behind.
    is_apart: dict[str, dict[str, Any]] = {"run": {"apart": apart.missing() is None}}
    chosen = config.merge(_DEFAULTS, is_apart, chosen)
    rates = {} if "rate" in app else {"random": _RANDOM_RATE}
    benchmarks = [
        (type, column, turn, _benchmark(chosen, column, _mine(chosen, type, rates, turn)))
        for turn in range(repeats)
        for type in types
        for column in measured
    ]
    folder = run.new_folder(benchmarks[0][3], "matrix")
    found: Matrix = {type: {column.label: [] for column in measured} for type in types}
    about = _about(measured, benchmarks[0][3])
    for type, column, turn, benchmark in benchmarks:
        place = folder / f"{type}-{column.label.replace(' ', '-')}-{turn}"
        cell = _run(benchmark, place)
        found[type][column.label].append(cell)
        print(f"{type} on {column.label}: {cell.verdict}", file=sys.stderr)
        tables.write(folder, found, about)
    return folder, found


def _mine(
    chosen: dict[str, dict[str, Any]], type: str, rates: dict[str, float], turn: int
) -> dict[str, Any]:
    """Returns the application's fields for a cell; each turn has its own seed, so that other tasks fail."""
    app = chosen["app"]
    if not str(app["seed"]).isdecimal():
        raise BenchError(f"app.seed: {app['seed']!r} is no number")
    return {"type": type, "seed": int(app["seed"]) + turn, "rate": rates.get(type, app["rate"])}


def _benchmark(chosen: dict[str, dict[str, Any]], column: Column, app: dict[str, Any]) -> Benchmark:
    executor = {"name": column.name, **config.executor_fields(chosen), **column.fields}
    return config.resolve(config.merge(chosen, {"app": app, "executor": executor}))


def _run(benchmark: Benchmark, folder: Path) -> Cell:
    begun = monotonic()
    status: int | None = 0
    try:
        run.start(benchmark, folder)
    except RunFailed as error:
        status = error.status
    except BenchError as error:
        return Cell(Verdict(Word.NOT_RUN, str(error)), folder.name, monotonic() - begun, [])
    found = evidence.read(folder, status, benchmark.executor.loss_repeats())
    errors = [task.error.partition("\n")[0] for task in found.injected if task.error]
    return Cell(judge(found), folder.name, monotonic() - begun, errors)


def _about(measured: list[Column], one: Benchmark) -> dict[str, Any]:
    """Returns the facts for a reader: versions, the machine, and the configuration."""
    needs = {need for column in measured for need in _needs(column.name)}
    versions = {name: version(name) for name in sorted({"gristmill", *needs})}
    return {
        "versions": {"Python": platform.python_version(), **versions},
        "environment": environment.capture(),
        "app": one.app.model_dump(mode="json", exclude={"type", "seed", "rate"}),
        "run": one.run.model_dump(mode="json"),
    }


def _needs(name: str) -> tuple[str, ...]:
    return plugins.find("executor", name).needs
