"""``gristmill bench reproduce``: measures figures of papers anew, and writes the page of all."""

from __future__ import annotations

import argparse
from datetime import UTC, datetime
from importlib.metadata import distributions
from pathlib import Path
from typing import Any

from gristmill.bench import environment
from gristmill.bench.errors import BenchError
from gristmill.bench.figures import catalogue, page
from gristmill.bench.figures.session import Session

#: Distributions whose versions the page names.
_TELLING = ("gristmill", "parsl", "ray", "distributed", "loky", "proxystore", "numpy")


def add_options(parser: argparse.ArgumentParser) -> None:
    """Adds what can be asked for."""
    parser.add_argument(
        "figures", nargs="+", metavar="FIGURE", help=f"all, {', '.join(catalogue.FIGURES)}"
    )
    parser.add_argument(
        "--folder",
        type=Path,
        default=Path("results"),
        help="where measurements, pictures and the page are written (results)",
    )
    parser.add_argument("--repeats", type=int, default=5, metavar="N", help="runs of each (5)")
    parser.add_argument(
        "--page-only",
        action="store_true",
        help="measure nothing: draw what was measured, and write the page",
    )


def reproduce(options: argparse.Namespace) -> int:
    """Does what the options say; gives the exit status. Which relations hold, the page says."""
    figures = catalogue.chosen(options.figures)
    if options.repeats < 1:
        raise BenchError("--repeats must be at least 1")
    folder: Path = options.folder.absolute()
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise BenchError(f"--folder: {folder}: {error.strerror}") from error
    session = Session(folder, options.repeats)
    for name, figure in figures.items():
        if not options.page_only:
            where = _environment()
            data = figure.measure(session)
            data.environment = where
            data.write(folder / f"{name}.json")
    print(page.write(folder))
    return 0


def _environment() -> dict[str, Any]:
    """What a reader needs to judge a figure."""
    whole = environment.capture()
    kept = ("cpu", "cores_allowed", "memory", "kernel", "python", "load_1_min")
    versions = {one.name: one.version for one in distributions() if one.name in _TELLING}
    return {
        "day": datetime.now(UTC).date().isoformat(),
        **{name: whole[name] for name in kept},
        "versions": dict(sorted(versions.items())),
    }
