"""Shared fixtures of the tests of contexts."""

from __future__ import annotations

from pathlib import Path

import pytest

from setups import Log


@pytest.fixture
def log(tmp_path: Path) -> Log:
    """Returns the log that setups write to."""
    return Log(tmp_path)
