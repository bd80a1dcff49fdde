"""Applications as a distribution of somebody else has them: found by its entry points, here and in runs."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

import pytest


def install(
    folder: Path, monkeypatch: pytest.MonkeyPatch, module: str, source: str, classes: Sequence[str]
) -> None:
    """Installs a module with applications, each called after its class, until the test ends."""
    site = folder / "site"
    about = site / f"{module}-1.0.dist-info"
    about.mkdir(parents=True)
    (about / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {module}\nVersion: 1.0\n")
    points = "".join(f"{name.lower()} = {module}:{name}\n" for name in classes)
    (about / "entry_points.txt").write_text(f"[gristmill.bench.app]\n{points}")
    (site / f"{module}.py").write_text(source)
    monkeypatch.syspath_prepend(site)
    monkeypatch.setenv("PYTHONPATH", str(site), prepend=os.pathsep)
