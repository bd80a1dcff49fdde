"""Pytest plugin that replaces Parsl's kernel by ours, in the runs that test our kernel.

It does so before Parsl's tests and their ``conftest.py`` are imported.
"""

from __future__ import annotations

import pytest

#: Runs with our kernel instead of Parsl's.
_KERNEL_RUNS = ("b", "c", "d")


def pytest_load_initial_conftests(early_config: pytest.Config) -> None:
    """Installs our kernel in place of Parsl's, in the runs that test it."""
    if early_config.known_args_namespace.conformance_run in _KERNEL_RUNS:
        import gristmill.parsl

        gristmill.parsl.install()
