"""A runner of the suite's applications for its tests. It skips a test where a requirement is not installed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from gristmill_bench import App, Engine, ExecutorPlugin
from gristmill_bench.executors.here import Inline, Threads
from gristmill_bench.executors.ours import Gristmill

EXECUTORS: list[ExecutorPlugin] = [Threads(workers=2), Gristmill(workers=2)]


def run(app: App, folder: Path | None = None, executor: ExecutorPlugin | None = None) -> Any:
    """Returns the result of an application; skips the test where the application cannot run here."""
    if missing := app.missing():
        pytest.skip(missing)
    backend = (executor or Inline()).open()
    try:
        return app.run(Engine(backend), folder or Path())
    finally:
        backend.shutdown()
