"""What tests of contexts share."""

from __future__ import annotations

from pathlib import Path

import pytest

from setups import Log


@pytest.fixture
def log(tmp_path: Path) -> Log:
    """What setups write down."""
    return Log(tmp_path)
