"""Helpers for tests of runs in namespaces."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from gristmill._cli import main
from gristmill_bench import apart


@cache
def _missing() -> str | None:
    return apart.missing()


def need_namespaces() -> None:
    """Skips a test where users cannot create namespaces."""
    reason = _missing()
    if reason is not None:
        pytest.skip(reason)


def run(folder: Path, capsys: pytest.CaptureFixture[str], *words: str) -> tuple[Path, Any]:
    """Runs a synthetic application with failures from the command line; returns its folder and its summary."""
    base = ["--app.base", "synthetic", "--app.config.tasks", "8", "--app.rate", "0.125"]
    options = ["--run.folder", str(folder), "--run.timeout", "60"]
    assert main(["bench", "run", "--app", "failures", *base, *options, *words]) == 0
    made = Path(capsys.readouterr().out.splitlines()[-1])
    return made, json.loads((made / "summary.json").read_text())
