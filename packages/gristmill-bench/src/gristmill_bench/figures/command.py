"""The command ``gristmill bench reproduce``: measures figures of papers again, and writes the page of all figures."""

from __future__ import annotations

import argparse
import sys
from datetime import UTC, datetime
from importlib.metadata import distributions
from pathlib import Path
from typing import Any

from gristmill_bench import environment
from gristmill_bench.errors import BenchError
from gristmill_bench.figures import catalogue, page
from gristmill_bench.figures.figure import Figure
from gristmill_bench.figures.session import Session
from gristmill_bench.statistics import REPEATS

#: Distributions whose versions the page names.
_TELLING = ("gristmill", "parsl", "ray", "distributed", "loky", "proxystore", "numpy")


def add_options(parser: argparse.ArgumentParser) -> None:
    """Adds the options of the command."""
    parser.add_argument(
        "figures", nargs="*", metavar="FIGURE", help=f"all, {', '.join(catalogue.FIGURES)}"
    )
    parser.add_argument(
        "--folder",
        type=Path,
        default=Path("results"),
        help="where measurements, pictures and the page are written (results)",
    )
    parser.add_argument(
        "--repeats", type=int, default=REPEATS, metavar="N", help=f"runs of each ({REPEATS})"
    )
    parser.add_argument(
        "--list", action="store_true", help="measure nothing: name all figures, and where they are"
    )
    parser.add_argument(
        "--page-only",
        action="store_true",
        help="measure nothing: draw what was measured, and write the page",
    )


def reproduce(options: argparse.Namespace) -> int:
    """Runs the command; returns the exit status. The page says which relations hold."""
    if options.list:
        for line in _table():
            print(line)
        return 0
    if not options.figures:
        raise BenchError("no figure is named; all of them: gristmill bench reproduce all")
    figures = catalogue.chosen(options.figures)
    if options.repeats < 1:
        raise BenchError("--repeats must be at least 1")
    folder: Path = options.folder.absolute()
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise BenchError(f"--folder: {folder}: {error.strerror}") from error
    if not options.page_only:
        _measure(figures, Session(folder, options.repeats))
    print(page.write(folder))
    return 0


def _measure(figures: dict[str, Figure], session: Session) -> None:
    """Measures figures and writes each when it is measured; prints the plan and the results."""
    counts = {name: figure.run_count(session) for name, figure in figures.items()}
    uncounted = [name for name, count in counts.items() if count is None]
    others = f", and those of {', '.join(uncounted)}" if uncounted else ""
    _say(f"figures: {len(figures)}, runs: {sum(count or 0 for count in counts.values())}{others}")
    for name, figure in figures.items():
        where = _environment()
        data = figure.measure(session)
        data.environment = where
        data.write(session.folder / f"{name}.json")
        for relation in figure.relations:
            verdict, numbers = relation.verdict(data)
            _say(f"{name}: {verdict}: {relation.text} ({numbers})")


def _table() -> list[str]:
    """Returns a line for each figure: its name, its place in the paper, and its title."""
    figures = catalogue.FIGURES.values()
    widths = [
        max((len(text) for text in column), default=0)
        for column in ([one.key for one in figures], [one.source for one in figures])
    ]
    return [f"{one.key:<{widths[0]}}  {one.source:<{widths[1]}}  {one.title}" for one in figures]


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def _environment() -> dict[str, Any]:
    """Returns the facts that a reader needs to judge a figure."""
    whole = environment.capture()
    kept = ("cpu", "cores_allowed", "memory", "kernel", "python", "load_1_min")
    versions = {one.name: one.version for one in distributions() if one.name in _TELLING}
    return {
        "day": datetime.now(UTC).date().isoformat(),
        **{name: whole[name] for name in kept},
        "versions": dict(sorted(versions.items())),
    }
