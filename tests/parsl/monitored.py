"""Runs that are monitored, and what is in their databases."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import gristmill
from gristmill.parsl.config import Config
from gristmill.parsl.executors import GristmillExecutor
from gristmill.parsl.kernel import DataFlowKernel
from gristmill.parsl.monitoring.hub import MonitoringHub


@contextmanager
def run(
    folder: Path, executor: Any = None, retries: int = 0, **hub: Any
) -> Iterator[DataFlowKernel]:
    """A monitored run on two workers of the engine, or on another executor, which ends with the block."""
    config = Config(
        executors=[executor or GristmillExecutor(max_workers=2)],
        retries=retries,
        run_dir=str(folder),
        monitoring=MonitoringHub(**hub),
        exit_mode="wait",
    )
    with gristmill.load(config) as kernel:
        yield kernel


def query(folder: Path, sql: str) -> list[Any]:
    """The rows of a query; of one column the values themselves."""
    connection = sqlite3.connect(folder / "monitoring.db")
    rows = connection.execute(sql).fetchall()
    connection.close()
    return [row[0] if len(row) == 1 else row for row in rows]
