"""The version and the changelog of a release, as ``./dev release`` writes them."""

from __future__ import annotations

import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
CHANGELOG = """# Changelog

## Unreleased
- Fixed: a thing.
- New: another.

## 0.0.9 (2025-01-01)
- The first.
"""


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """Returns a folder with the files that a release changes, and with the program that changes them."""
    for name in (
        "Cargo.toml",
        "Cargo.lock",
        "fuzz/Cargo.lock",
        "CITATION.cff",
        "packages/gristmill-bench/pyproject.toml",
        "python/gristmill/__init__.py",
        "scripts/set_version.py",
    ):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, tmp_path / name)
    (tmp_path / "CHANGELOG.md").write_text(CHANGELOG)
    return tmp_path


def set_version(tree: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, tree / "scripts" / "set_version.py", *arguments]
    return subprocess.run(command, capture_output=True, text=True)


def test_a_release_has_its_version_in_all_files_and_its_part_of_the_changelog(tree: Path) -> None:
    assert set_version(tree, "7.8.9").returncode == 0
    assert 'version = "7.8.9"' in (tree / "Cargo.toml").read_text()
    assert "version: 7.8.9\n" in (tree / "CITATION.cff").read_text()
    assert '__version__ = "7.8.9"\n' in (tree / "python/gristmill/__init__.py").read_text()
    suite = tomllib.loads((tree / "packages/gristmill-bench/pyproject.toml").read_text())["project"]
    assert suite["version"] == "7.8.9"
    assert "gristmill==7.8.9" in suite["dependencies"]
    for lock in ("Cargo.lock", "fuzz/Cargo.lock"):
        text = (tree / lock).read_text()
        assert 'name = "gristmill-core"\nversion = "7.8.9"' in text
        assert text.count("7.8.9") == (ROOT / lock).read_text().count(
            'name = "gristmill-'
        ) - text.count('name = "gristmill-fuzz"')
    changelog = (tree / "CHANGELOG.md").read_text()
    assert changelog.startswith("# Changelog\n\n## Unreleased\n\n## 7.8.9 (20")
    assert set_version(tree, "7.8.9", "--notes").stdout == "- Fixed: a thing.\n- New: another.\n"


def test_the_suite_has_the_version_of_the_engine_and_requires_it() -> None:
    engine = tomllib.loads((ROOT / "Cargo.toml").read_text())["workspace"]["package"]["version"]
    project = tomllib.loads((ROOT / "packages/gristmill-bench/pyproject.toml").read_text())[
        "project"
    ]
    assert project["version"] == engine
    assert f"gristmill=={engine}" in project["dependencies"]


@pytest.mark.parametrize(
    ("version", "why"),
    [
        ("v7.8.9", "v7.8.9 is no version: it has to be three numbers, as 1.2.3"),
        ("7.8", "7.8 is no version: it has to be three numbers, as 1.2.3"),
        ("0.0.1", "0.0.1 is not later than 0."),
    ],
)
def test_a_version_that_cannot_come_next_changes_nothing(
    tree: Path, version: str, why: str
) -> None:
    done = set_version(tree, version)
    assert (done.returncode, done.stderr.startswith(why)) == (1, True), done.stderr
    assert (tree / "CHANGELOG.md").read_text() == CHANGELOG
    assert (tree / "Cargo.toml").read_text() == (ROOT / "Cargo.toml").read_text()


def test_a_release_of_nothing_is_refused(tree: Path) -> None:
    (tree / "CHANGELOG.md").write_text(
        CHANGELOG.replace("- Fixed: a thing.\n- New: another.\n", "")
    )
    assert "nothing below its heading Unreleased" in set_version(tree, "7.8.9").stderr
    assert (tree / "Cargo.toml").read_text() == (ROOT / "Cargo.toml").read_text()


def test_the_tag_of_another_version_is_refused(tree: Path) -> None:
    done = set_version(tree, "7.8.9", "--notes")
    assert done.returncode == 1
    assert "not 7.8.9" in done.stderr


def test_the_workflow_that_publishes_is_valid() -> None:
    actionlint = shutil.which("actionlint") or shutil.which(
        "actionlint", path=ROOT / "target" / "tools"
    )
    if actionlint is None:
        pytest.skip("actionlint is not on this machine: .ci/packages installs it")
    done = subprocess.run([actionlint], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout
