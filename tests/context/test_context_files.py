"""Files of a context, for functions that run on this machine."""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from gristmill import (
    Context,
    ContextCalls,
    ContextError,
    ContextWorkers,
    Executor,
    context_file,
)
from gristmill._context.declare import with_reuse

import setups

MakeExecutor = Callable[..., Executor]


@pytest.fixture
def words(tmp_path: Path) -> Path:
    """Returns a file that a setup reads."""
    path = tmp_path / "words.txt"
    path.write_text("one two")
    return path


@pytest.mark.parametrize(
    ("options", "reuse"),
    [
        ({}, "memory"),
        ({"calls": ContextCalls(mode="fork")}, "memory"),
        ({"workers": ContextWorkers(fork=False)}, "memory"),
        ({}, "disk"),
    ],
    ids=["direct", "fork", "alone", "disk"],
)
def test_setup_and_functions_find_a_file_by_its_name(
    make_executor: MakeExecutor, words: Path, options: dict[str, Any], reuse: str
) -> None:
    context = with_reuse(Context(setups.read_words, files=[words], **options), reuse)
    run = make_executor(1).options(context=context).submit
    assert run(lambda: context["text"]).result() == "one two"
    assert Path(run(context_file, "words.txt").result()).read_text() == "one two"


def test_files_have_the_names_that_they_are_given(executor: Executor, words: Path) -> None:
    empty = words.with_name("empty")
    empty.touch()
    context = Context(dict, files={"a": words, "b": empty})
    options = executor.options(context=context)
    sizes = [os.path.getsize(options.submit(context_file, name).result()) for name in "ab"]
    assert sizes == [7, 0]
    with pytest.raises(ContextError, match=re.escape("no file 'words.txt'; it has 'a', 'b'")):
        options.submit(context_file, "words.txt").result()


def test_a_context_in_this_process_has_its_files(words: Path) -> None:
    context = Context(setups.read_words, files=[words])
    with context:
        assert context["text"] == "one two"
        assert context_file("words.txt") == str(words)
    with pytest.raises(ContextError, match="no context with files"):
        context_file("words.txt")


def test_a_file_that_was_changed_is_not_used_for_the_old_one(
    make_executor: MakeExecutor, words: Path
) -> None:
    context = Context(setups.read_words, files=[words], name="model")
    run = make_executor(1).options(context=context).submit
    assert run(lambda: context["text"]).result() == "one two"
    context.release()
    words.write_text("three")
    assert run(lambda: context["text"]).result() == "three", "it was hashed anew"
    other = Context(setups.read_words, files=[words], name="other")
    assert other.key
    words.write_text("four")
    with pytest.raises(ContextError, match=r'(?s)"other" failed.*words.txt was changed after'):
        make_executor(1).options(context=other).submit(abs, -1).result()


def test_what_is_no_file_is_refused_where_the_context_is_declared(words: Path) -> None:
    with pytest.raises(ValueError, match=r"missing does not exist"):
        Context(dict, files=[words.with_name("missing")])
    with pytest.raises(ValueError, match="is a folder"):
        Context(dict, files=[words.parent])
    with pytest.raises(ValueError, match=r"have the same name, 'words.txt'"):
        Context(dict, files=[words, words])
    with pytest.raises(TypeError, match="a list of paths"):
        Context(dict, files=str(words))


def test_a_file_that_goes_before_its_context_is_used_is_named(
    executor: Executor, words: Path
) -> None:
    context = Context(setups.read_words, files=[words], name="model")
    words.unlink()
    with pytest.raises(ContextError, match=r"file .*words.txt of context 'model' cannot be"):
        executor.options(context=context).submit(abs, -1).result()
