"""What the tests of profiles share: a skip where nobody may look into processes."""

from __future__ import annotations

import pytest

from gristmill._profile import permission


@pytest.fixture
def may_profile() -> None:
    """Skips a test where py-spy is not installed, or not permitted to look."""
    try:
        permission.sampler()
    except permission.CannotProfile as error:
        pytest.skip(str(error))
