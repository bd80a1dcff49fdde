"""Modules of which a node has another version than the program."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from gristmill import Executor, on
from gristmill._errors import StaleModuleError

from written import Folder


def first_on_path(folder: str) -> None:
    """Makes a worker import from this folder first, which the program does not."""
    sys.path.insert(0, folder)


class Place(NamedTuple):
    """The folder that the program imports from, the one that the node imports from first, and the node."""

    here: Folder
    there: Path
    node: Executor

    def write(self, name: str, here: str, there: str) -> None:
        self.here.write(name, here)
        (self.there / f"{name}.py").write_text(there)

    def error(self, function: Callable[..., Any]) -> BaseException | None:
        """Returns the error of a call on the node, in a worker that has imported nothing before."""
        return self.node.submit(function).exception()


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    here, there = tmp_path_factory.mktemp("here"), tmp_path_factory.mktemp("there")
    folder = Folder(here)
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(here))
        with Executor(
            nodes=on.local(1),
            initializer=first_on_path,
            initargs=(str(there),),
            max_tasks_per_child=1,
        ) as node:
            yield Place(folder, there, node)
        for name in folder.written:
            sys.modules.pop(name, None)


@pytest.mark.parametrize("name", ["scale", "plain"])
def test_another_version_on_a_node_is_told_and_the_node_is_named(place: Place, name: str) -> None:
    text = "VERSION = {0}\ndef scale():\n    return {0}\ndef plain():\n    return scale()\n"
    place.write("versions_module", text.format(2), text.format(1))
    error = place.error(getattr(place.here.load("versions_module"), name))
    assert isinstance(error, StaleModuleError)
    assert "is another version on node local0 than in the caller" in str(error)
    assert str(place.there / "versions_module.py") in str(error)
    assert "edited" not in str(error)


def test_an_edited_module_is_told_as_such_on_a_node_too(place: Place) -> None:
    place.here.write("edited_module", "def f():\n    return 1\n")
    function = place.here.load("edited_module").f
    # The program takes the module's hash with the first submission.
    assert place.node.submit(function).result() == 1
    place.here.write("edited_module", "def f():\n    return 2\n")
    error = place.error(function)
    assert isinstance(error, StaleModuleError)
    assert "was edited after the caller imported it" in str(error)
    assert "the worker on node local0" in str(error)


def test_a_function_that_the_caller_replaced_is_told_as_such_on_a_node_too(place: Place) -> None:
    place.here.write("replaced_module", "def f():\n    return 1\n")
    function = place.here.load("replaced_module").f
    function.__code__ = (lambda: 2).__code__
    error = place.error(function)
    assert isinstance(error, StaleModuleError)
    assert "replaced_module.f was edited" in str(error)
    assert "was replaced in the caller: the worker on node local0" in str(error)


def test_the_error_passes_through_a_task_as_it_is(place: Place) -> None:
    place.write("passing_module", "def f():\n    return 2\n", "def f():\n    return 1\n")
    function = place.here.load("passing_module").f
    error = place.error(lambda: function())
    assert isinstance(error, StaleModuleError)
    assert "on node local0" in str(error)
    assert "edited" not in str(error)
