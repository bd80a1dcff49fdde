"""Applications in a third-party distribution: found by its entry points, in this process and in runs."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

import pytest


def install(
    folder: Path, monkeypatch: pytest.MonkeyPatch, module: str, source: str, classes: Sequence[str]
) -> None:
    """Installs a module with applications until the test ends. Each application has the name of its class."""
    site = folder / "site"
    about = site / f"{module}-1.0.dist-info"
    about.mkdir(parents=True)
    (about / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {module}\nVersion: 1.0\n")
    points = "".join(f"{name.lower()} = {module}:{name}\n" for name in classes)
    (about / "entry_points.txt").write_text(f"[gristmill_bench.app]\n{points}")
    (site / f"{module}.py").write_text(source)
    monkeypatch.syspath_prepend(site)
    monkeypatch.setenv("PYTHONPATH", str(site), prepend=os.pathsep)
