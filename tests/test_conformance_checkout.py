"""Tests of other projects from their repositories: found in a clone, cloned, or unavailable."""

from __future__ import annotations

import importlib
import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.skipif(shutil.which("git") is None, reason="git is not installed")

_CONFORMANCE = Path(__file__).parents[1] / "conformance"
_NAMELESS = {
    "GIT_AUTHOR_NAME": "some",
    "GIT_AUTHOR_EMAIL": "some@localhost",
    "GIT_COMMITTER_NAME": "some",
    "GIT_COMMITTER_EMAIL": "some@localhost",
    "GIT_CONFIG_GLOBAL": os.devnull,
}


def git(repository: Path, *arguments: str) -> str:
    command = ["git", "-C", str(repository), *arguments]
    return subprocess.run(
        command, check=True, capture_output=True, text=True, env={**os.environ, **_NAMELESS}
    ).stdout.strip()


@pytest.fixture
def checkout(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.syspath_prepend(str(_CONFORMANCE))
    monkeypatch.delenv("GRISTMILL_CHECKOUTS", raising=False)
    return importlib.import_module("checkout")


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    """Returns the repository of a project whose tagged file of tests has changed since the tag."""
    made = tmp_path / "clones" / "some"
    (made / "tests").mkdir(parents=True)
    git(made, "init", "--quiet")
    for content, tag in (("released", "v1"), ("later", "v2")):
        (made / "tests" / "test_some.py").write_text(content)
        git(made, "add", ".")
        git(made, "commit", "--quiet", "--message", tag)
        git(made, "tag", tag)
    return made


def made(checkout: Any, repository: Path, tag: str = "v1", where: str | None = None) -> Any:
    tree = git(repository, "rev-parse", "v1:tests")
    return checkout.Checkout("some", "1", where or repository.as_uri(), tag, "tests", tree)


def test_tests_are_those_with_the_hash_in_a_clone_that_is_given(
    checkout: Any, repository: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GRISTMILL_CHECKOUTS", str(repository.parent))
    source = made(checkout, repository, where="/nowhere").unpack(tmp_path / "out")
    assert (source / "tests" / "test_some.py").read_text() == "released"


def test_tests_are_cloned_once(checkout: Any, repository: Path, tmp_path: Path) -> None:
    one = made(checkout, repository)
    one.unpack(tmp_path / "out")
    shutil.rmtree(repository)
    source = one.unpack(tmp_path / "out")
    assert (source / "tests" / "test_some.py").read_text() == "released"


def test_tests_come_from_an_archive_if_the_repository_cannot_be_reached(
    checkout: Any, repository: Path, tmp_path: Path
) -> None:
    archive = tmp_path / "some.tar.gz"
    git(repository, "archive", "--prefix=some-1/", "--output", str(archive), "v1")
    tree = git(repository, "rev-parse", "v1:tests")
    one = checkout.Checkout("some", "1", "/nowhere", "v1", "tests", tree, archive.as_uri())
    source = one.unpack(tmp_path / "out")
    assert (source / "tests" / "test_some.py").read_text() == "released"


def test_other_tests_in_the_archive_are_refused(
    checkout: Any, repository: Path, tmp_path: Path
) -> None:
    archive = tmp_path / "some.tar.gz"
    git(repository, "archive", "--prefix=some-1/", "--output", str(archive), "v2")
    tree = git(repository, "rev-parse", "v1:tests")
    one = checkout.Checkout("some", "1", "/nowhere", "v1", "tests", tree, archive.as_uri())
    with pytest.raises(SystemExit, match="has other tests at v1"):
        one.unpack(tmp_path / "out")


def test_a_tag_that_names_other_tests_by_now_is_refused(
    checkout: Any, repository: Path, tmp_path: Path
) -> None:
    with pytest.raises(SystemExit, match="has other tests at v2"):
        made(checkout, repository, tag="v2").unpack(tmp_path / "out")


def test_a_repository_that_cannot_be_reached_is_said_with_what_to_do(
    checkout: Any, repository: Path, tmp_path: Path
) -> None:
    away = made(checkout, repository, where=str(tmp_path / "nowhere"))
    with pytest.raises(checkout.Unreachable, match=r"set \$GRISTMILL_CHECKOUTS to a folder"):
        away.unpack(tmp_path / "out")
