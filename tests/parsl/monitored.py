"""Monitored runs, and queries of their databases."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import gristmill.parsl as parsl
from gristmill.parsl import Config, DataFlowKernel, GristmillExecutor, MonitoringHub


@contextmanager
def run(
    folder: Path, executor: Any = None, retries: int = 0, **hub: Any
) -> Iterator[DataFlowKernel]:
    """Opens a monitored run on two workers of the engine, or on another executor."""
    config = Config(
        executors=[executor or GristmillExecutor(max_workers=2)],
        retries=retries,
        run_dir=str(folder),
        monitoring=MonitoringHub(**hub),
        exit_mode="wait",
    )
    with parsl.load(config) as kernel:
        yield kernel


def query(folder: Path, sql: str) -> list[Any]:
    """Returns the rows of a query; for one column, the values themselves."""
    connection = sqlite3.connect(folder / "monitoring.db")
    rows = connection.execute(sql).fetchall()
    connection.close()
    return [row[0] if len(row) == 1 else row for row in rows]
