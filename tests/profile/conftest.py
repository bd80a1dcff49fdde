"""Shared fixtures of the tests of profiles: a skip where users may not inspect processes."""

from __future__ import annotations

import pytest

from gristmill._profile import permission


@pytest.fixture
def may_profile() -> None:
    """Skips a test where py-spy is not installed, or may not inspect processes."""
    try:
        permission.sampler()
    except permission.CannotProfile as error:
        pytest.skip(str(error))
