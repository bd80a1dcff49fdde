"""The type of app futures is made once in a process, so tests with a mixin of their own need a process of their own."""

from __future__ import annotations

import ast
import subprocess
import sys
import xml.etree.ElementTree as ElementTree
from pathlib import Path

import pytest

pytestmark = pytest.mark.interpreter

FILE = Path(__file__).with_name("app_futures_alone.py")
TESTS = [
    node.name for node in ast.parse(FILE.read_text()).body if isinstance(node, ast.FunctionDef)
]


@pytest.fixture(scope="module")
def outcomes(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Returns the outcome of each test of the other file: an empty text if it passed."""
    folder = tmp_path_factory.mktemp("alone")
    report = folder / "report.xml"
    options = ["-q", "-p", "no:cacheprovider", "-p", "no:xdist", f"--junitxml={report}"]
    # This folder is separate, because pytest would otherwise remove the folders of earlier runs.
    options.append(f"--basetemp={folder / 'of tests'}")
    command = [sys.executable, "-m", "pytest", *options, str(FILE)]
    printed = subprocess.run(command, capture_output=True, text=True, check=False).stdout
    if not report.exists():
        return dict.fromkeys(TESTS, printed)
    cases = ElementTree.parse(report).iter("testcase")
    return {case.get("name", ""): "".join(part.text or "" for part in case) for case in cases}


@pytest.mark.parametrize("name", [name for name in TESTS if name.startswith("test_")])
def test_alone(outcomes: dict[str, str], name: str) -> None:
    said = outcomes.get(name, "it did not run")
    assert not said, said
