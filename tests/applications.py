"""Runs an application of the suite for its tests, where what it needs is installed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from gristmill.bench import App, Engine, ExecutorPlugin
from gristmill.bench.executors.here import Inline, Threads
from gristmill.bench.executors.ours import Gristmill

EXECUTORS: list[ExecutorPlugin] = [Threads(workers=2), Gristmill(workers=2)]


def run(app: App, folder: Path | None = None, executor: ExecutorPlugin | None = None) -> Any:
    """Its result; skips where it cannot be had."""
    if missing := app.missing():
        pytest.skip(missing)
    backend = (executor or Inline()).open()
    try:
        return app.run(Engine(backend), folder or Path())
    finally:
        backend.shutdown()
