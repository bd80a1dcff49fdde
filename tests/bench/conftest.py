"""Shared setup of the suite's tests: a skip where a requirement of the suite is not installed."""

import importlib.util
from pathlib import Path

import pytest

from not_installed import NotInstalled

MISSING = [
    name
    for name in ("gristmill_bench", "msgspec", "pydantic", "tomli_w")
    if importlib.util.find_spec(name) is None
]


def pytest_pycollect_makemodule(
    module_path: Path, parent: pytest.Collector
) -> pytest.Module | None:
    reason = f"gristmill-bench: {', '.join(MISSING)} missing" if MISSING else None
    return NotInstalled.of(module_path, parent, reason)
