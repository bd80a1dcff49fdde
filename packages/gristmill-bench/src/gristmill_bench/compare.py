"""One application on several executors, in turns, so that drift of the machine affects all executors alike."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from gristmill_bench import config, run
from gristmill_bench.errors import BenchError
from gristmill_bench.statistics import Median, median_of

#: The file with the summary of each run.
SERIES = "comparison.json"
#: Phases in the order in which they are printed.
_PHASES = ("open", "warm-up", "run", "close")


def compare(
    tables: dict[str, dict[str, Any]], executors: Sequence[str], repeats: int
) -> tuple[Path, dict[str, list[dict[str, Any]]]]:
    """Runs what the tables describe ``repeats`` times on each executor; returns the folder and all summaries.

    Raises ``BenchError`` before the first run if an executor is not available or lacks a field. The entry of a failed
    run holds the reason instead of a summary.
    """
    benchmarks = {
        name: config.resolve(
            config.merge(tables, {"executor": {"name": name, **config.executor_fields(tables)}})
        )
        for name in executors
    }
    folder = run.new_folder(next(iter(benchmarks.values())), "compared")
    found: dict[str, list[dict[str, Any]]] = {name: [] for name in executors}
    for turn in range(repeats):
        for name, benchmark in benchmarks.items():
            try:
                one = run.summary(run.start(benchmark, folder / f"{name}-{turn}"))
            except BenchError as error:
                one = {"error": str(error)}
            found[name].append(one)
            (folder / SERIES).write_text(json.dumps(found, indent=2))
    return folder, found


def table(found: dict[str, list[dict[str, Any]]]) -> str:
    """Returns the results as text: medians with their confidence intervals, and ratios to the first executor."""
    lines = [
        f"{'executor':<14}{'tasks/s':>10}  {'run':<32}{'of the first':<14}open, warm-up, close"
    ]
    first = next(iter(found.values()))
    for name, summaries in found.items():
        good = [one for one in summaries if "error" not in one]
        if not good:
            lines.append(f"{name:<14}{summaries[0]['error']}")
            continue
        runs = [one["seconds"]["run"] for one in good]
        ratio = _ratio(summaries, first)
        rest = ", ".join(_phase(good, phase) for phase in _PHASES if phase != "run")
        rate = median_of([one["tasks_per_second"] for one in good]).value
        lost = f"  {len(summaries) - len(good)} runs failed" if len(good) < len(summaries) else ""
        lines.append(
            f"{name:<14}{rate:>10,.0f}  {_text(median_of(runs), 's'):<32}  {ratio:<12}{rest}{lost}"
        )
        for figure in good[0]["figures"]:
            quantity, _, unit = figure.rpartition("_")
            samples = [one["figures"][figure] for one in good]
            lines.append(f"{'':<26}{quantity} {_text(median_of(samples), unit)}")
    return "\n".join(lines)


def _ratio(summaries: list[dict[str, Any]], first: list[dict[str, Any]]) -> str:
    """Returns the median ratio of the run times to those of the first executor in the same turns."""
    pairs = [
        pair
        for pair in zip(summaries, first, strict=True)
        if not any("error" in one for one in pair)
    ]
    if not pairs:
        return "-"
    ratios = [mine["seconds"]["run"] / theirs["seconds"]["run"] for mine, theirs in pairs]
    return f"{median_of(ratios).value:.3g}"


def _phase(summaries: list[dict[str, Any]], phase: str) -> str:
    return f"{median_of([one['seconds'][phase] for one in summaries]).value:.3g} s"


def _text(one: Median, unit: str) -> str:
    # The confidence is rounded down and shown as at most 95 %.
    sure = f"{min(int(100 * one.confidence), 95)}%"
    return f"{one.value:.3g} {unit} ({one.low:.3g}-{one.high:.3g}; {one.samples}, {sure})"
