"""Configurations for the kernels of tests."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from gristmill.parsl import Config, GristmillExecutor, ThreadPoolExecutor


def configuration(kind: str, folder: Path, **options: Any) -> Config:
    """Returns a configuration with one executor, ``here``, that runs two tasks at a time."""
    executor: Any = (
        ThreadPoolExecutor(label="here", max_threads=2)
        if kind == "threads"
        else GristmillExecutor(label="here", max_workers=2)
    )
    options = {"initialize_logging": False, "executors": [executor], **options}
    return Config(run_dir=str(folder / "runs"), **options)
