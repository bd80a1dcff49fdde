"""The rows of ``./dev bench`` can be loaded where no peer is installed."""

from __future__ import annotations

import importlib
import pkgutil
from pathlib import Path

import benches
import pytest

ROOT = Path(benches.__file__).parent


@pytest.mark.parametrize(
    "module",
    [
        one.name
        for package in ("engines", "rows")
        for one in pkgutil.walk_packages([str(ROOT / package)], f"benches.{package}.")
    ],
)
def test_rows_and_their_engines_can_be_loaded(module: str) -> None:
    pytest.importorskip("gristmill_bench", reason="gristmill-bench is not installed")
    importlib.import_module(module)
