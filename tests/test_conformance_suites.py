"""The search for CPython's own tests, and the message for an interpreter that lacks them."""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import Any

import pytest

_CONFORMANCE = Path(__file__).parents[1] / "conformance"


@pytest.fixture
def suites(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.syspath_prepend(str(_CONFORMANCE))
    monkeypatch.delenv("GRISTMILL_CPYTHON_TESTS", raising=False)
    return importlib.import_module("suites")


def test_tests_that_were_unpacked_are_found_by_version(
    suites: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(suites, "_UNPACKED", tmp_path)
    monkeypatch.setattr(suites, "_DEBIAN", str(tmp_path / "none" / "{}"))
    (tmp_path / "3.11").mkdir()
    (tmp_path / "3.11" / "test_concurrent_futures.py").touch()
    assert suites._tests_beside("3.11") == tmp_path / "3.11"
    assert suites._tests_beside("3.12") is None


def test_an_interpreter_without_the_tests_is_skipped_with_what_to_do(
    suites: Any, tmp_path: Path
) -> None:
    python = tmp_path / "python"
    python.write_text("#!/bin/sh\nexit 1\n")
    python.chmod(0o755)
    said = suites.lacks(str(python), "3.12", suites.read_suite("cpython"))
    assert "libpython3.12-testsuite" in said
    assert "$GRISTMILL_CPYTHON_TESTS" in said
