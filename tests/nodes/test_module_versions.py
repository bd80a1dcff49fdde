"""Modules of which a node has another version than the program."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from gristmill import Executor, on
from gristmill._errors import StaleModuleError

from written import Folder


def first_on_path(folder: str) -> None:
    """Makes a worker import from this folder first, which the program does not."""
    sys.path.insert(0, folder)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Folder]:
    monkeypatch.syspath_prepend(str(tmp_path / "here"))
    (tmp_path / "here").mkdir()
    folder = Folder(tmp_path / "here")
    yield folder
    for name in folder.written:
        sys.modules.pop(name, None)


def error_on_node(of_node: Path, function: Callable[..., Any]) -> BaseException | None:
    """Returns the error of a call on a node that imports from a folder of its own first."""
    with Executor(nodes=on.local(1), initializer=first_on_path, initargs=(str(of_node),)) as there:
        return there.submit(function).exception()


@pytest.mark.parametrize("name", ["scale", "plain"])
def test_another_version_on_a_node_is_told_and_the_node_is_named(
    folder: Folder, tmp_path: Path, name: str
) -> None:
    text = "VERSION = {0}\ndef scale():\n    return {0}\ndef plain():\n    return scale()\n"
    folder.write("versions_module", text.format(2))
    there = tmp_path / "there"
    there.mkdir()
    (there / "versions_module.py").write_text(text.format(1))
    error = error_on_node(there, getattr(folder.load("versions_module"), name))
    assert isinstance(error, StaleModuleError)
    assert "is another version on node local0 than in the caller" in str(error)
    assert str(there / "versions_module.py") in str(error)
    assert "edited" not in str(error)


def test_an_edited_module_is_told_as_such_on_a_node_too(folder: Folder, tmp_path: Path) -> None:
    folder.write("edited_module", "def f():\n    return 1\n")
    function = folder.load("edited_module").f
    with Executor(nodes=on.local(1)) as executor:
        # The program takes the module's hash with the first submission.
        assert executor.submit(function).result() == 1
        folder.write("edited_module", "def f():\n    return 2\n")
        (tmp_path / "empty").mkdir()
        error = error_on_node(tmp_path / "empty", function)
    assert isinstance(error, StaleModuleError)
    assert "was edited after the caller imported it" in str(error)
    assert "the worker on node local0" in str(error)


def test_the_error_passes_through_a_task_as_it_is(folder: Folder, tmp_path: Path) -> None:
    folder.write("passing_module", "def f():\n    return 2\n")
    there = tmp_path / "there"
    there.mkdir()
    (there / "passing_module.py").write_text("def f():\n    return 1\n")
    function = folder.load("passing_module").f
    error = error_on_node(there, lambda: function())
    assert isinstance(error, StaleModuleError)
    assert "on node local0" in str(error)
    assert "edited" not in str(error)
