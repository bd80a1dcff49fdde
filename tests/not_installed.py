"""Test modules that cannot be imported here: each reports its missing requirement, and is skipped."""

from __future__ import annotations

from pathlib import Path

import pytest


class NotInstalled(pytest.Module):
    """A test module that is not imported."""

    reason = ""

    @classmethod
    def of(cls, path: Path, parent: pytest.Collector, reason: str | None) -> NotInstalled | None:
        """Returns the module for ``pytest_pycollect_makemodule``, or ``None`` where there is no reason to skip it."""
        if reason is None:
            return None
        module: NotInstalled = cls.from_parent(parent, path=path)
        module.reason = reason
        return module

    def collect(self) -> list[pytest.Item]:
        pytest.skip(self.reason, allow_module_level=True)
