"""The command ``gristmill bench replay``: runs a recorded run on an executor, or simulates it in virtual time."""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any, cast

from pydantic import ValidationError

from gristmill_bench import plugins
from gristmill_bench.apps.replay import Replay
from gristmill_bench.errors import BenchError
from gristmill_bench.replay import forecast

#: The tables that a simulation accepts.
_TABLES = ("app", "cost")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the record, and the options of a simulation."""
    parser.add_argument("record", type=Path, help="the folder of a run, or a file of one")
    group = parser.add_argument_group("simulated, where workers or nodes are given")
    group.add_argument("--workers", type=int, metavar="N", help="workers, of each node")
    group.add_argument(
        "--nodes", type=int, metavar="N", help="nodes; without any the workers are the program's"
    )
    group.add_argument(
        "--cores",
        type=int,
        metavar="N",
        help="what the scheduler believes that program and workers have: the simulation does not share them",
    )
    group.add_argument("--seed", type=int, metavar="N", help="draws the latencies (1)")
    group.add_argument("--json", action="store_true", help="print all figures as JSON")


def is_simulated(options: argparse.Namespace) -> bool:
    """Returns whether the options ask for a simulation instead of a real run."""
    return any(getattr(options, name) is not None for name in _CLUSTER) or options.json


_CLUSTER = ("nodes", "workers", "cores", "seed")


def simulate(options: argparse.Namespace, tables: dict[str, dict[str, Any]]) -> int:
    """Prints a forecast; returns the exit status."""
    loose = next((name for name in tables if name not in _TABLES), None)
    chosen = next((kind for kind in plugins.KINDS if getattr(options, kind, None)), loose)
    if chosen is not None:
        raise BenchError(
            f"{chosen} is for a run, and --workers or --nodes for a simulation: it has fields of {', '.join(_TABLES)}"
        )
    if options.workers is None:
        raise BenchError("a simulation needs --workers: how many, of each node if there are nodes")
    fields = {**tables.get("app", {}), "record": options.record}
    app = cast(Replay, plugins.make("app", "replay", fields))
    given = {name: getattr(options, name) for name in _CLUSTER}
    try:
        cluster = forecast.Cluster.model_validate(
            {name: value for name, value in given.items() if value is not None}
        )
    except ValidationError as error:
        raise BenchError(
            "; ".join(
                f"--{(one['loc'] or ('workers',))[0]}: {one['msg']}"
                for one in error.errors(include_url=False)
            )
        ) from error
    found = forecast.forecast(app, cluster, forecast.costs(tables.get("cost", {})))
    print(json.dumps(found, indent=2) if options.json else forecast.text(found))
    return 0
