"""The codes of exceptions: their table in the reference is complete, and they survive each way to the caller."""

from __future__ import annotations

import copy
import importlib
import pickle
import re
from collections.abc import Iterator
from pathlib import Path

import gristmill
from gristmill import Executor, _native
from gristmill._errors import AlteredImageError

ROOT = Path(__file__).parents[1]
#: Modules that define exceptions, besides those that the package itself exports.
MODULES = [
    "gristmill._errors",
    "gristmill._interrupt",
    "gristmill._nodes.block_status",
    "gristmill.parsl._kernel.errors",
    "gristmill.parsl._kernel.losses",
    "gristmill.parsl._kernel.staging.errors",
]
#: The method that gives a Rust error its code, up to its end.
METHOD = re.compile(r"pub (?:const )?fn code\(&self\) -> &'static str \{\n(.*?)\n    \}\n", re.S)


def _classes() -> Iterator[type[BaseException]]:
    for name in MODULES:
        for value in vars(importlib.import_module(name)).values():
            is_class = isinstance(value, type) and issubclass(value, BaseException)
            if is_class and value.__module__.startswith("gristmill"):
                yield value
    yield _native.ForeignFutureError


def _codes_of_rust() -> set[str]:
    sources = (ROOT / "crates").glob("*/src/**/*.rs")
    bodies = [body for path in sources for body in METHOD.findall(path.read_text())]
    return {code for body in bodies for code in re.findall(r'"(\w+)"', body)}


def _code_of(call: object, *arguments: object) -> tuple[str, str]:
    try:
        call(*arguments)  # type: ignore[operator]
    except Exception as error:
        return type(error).__name__, error.code  # type: ignore[attr-defined]
    raise AssertionError("the call raised no exception")


def _raise_finer_code() -> None:
    error = gristmill.LimitReachedError("too many")
    error.code = "task_limit_reached"
    raise error


def _raise_altered_image() -> None:
    raise AlteredImageError("cut off")


def _submit_and_read_code() -> tuple[str, str]:
    inner = gristmill.current_executor()
    return _code_of(inner.submit(_raise_finer_code).result)


def _submit_with_too_much_memory() -> tuple[str, str]:
    return _code_of(gristmill.current_executor().options(memory=1 << 60).submit(int).result)


def test_the_reference_lists_each_code_of_the_sources_and_no_other() -> None:
    page = (ROOT / "docs/reference/errors.md").read_text().partition("\n## Error codes")[2]
    listed = re.findall(r"^\| `(\w+)` \|", page, re.M)
    assert len(listed) == len(set(listed))
    own = {one.code for one in _classes()}  # type: ignore[attr-defined]
    assert set(listed) == own | _codes_of_rust()


def test_each_class_has_a_code_of_its_own() -> None:
    classes = set(_classes())
    without = [one for one in classes if "code" not in vars(one)]
    assert not without
    assert len({one.code for one in classes}) == len(classes)  # type: ignore[attr-defined]


def test_a_finer_code_survives_pickling_and_copies() -> None:
    error = gristmill.RemoteError("what happened", "some.Type")
    error.code = "finer"
    for copied in (pickle.loads(pickle.dumps(error)), copy.copy(error)):
        assert (copied.code, str(copied), copied.type_name) == (
            "finer",
            "what happened",
            "some.Type",
        )


def test_a_task_s_code_reaches_the_caller(executor: Executor) -> None:
    futures = [executor.submit(_raise_finer_code), executor.submit(_raise_altered_image)]
    assert _code_of(futures[0].result) == ("LimitReachedError", "task_limit_reached")
    assert _code_of(futures[1].result) == ("AlteredImageError", "image_altered")


def test_a_code_survives_tasks_of_tasks(executor: Executor) -> None:
    outcome = executor.submit(_submit_and_read_code).result()
    assert outcome == ("LimitReachedError", "task_limit_reached")


def test_a_refusal_has_one_code_in_the_program_and_inside_a_task(executor: Executor) -> None:
    expected = ("ResourceError", "resources_exceeded")
    greedy = executor.options(memory=1 << 60)
    assert _code_of(lambda: greedy.submit(int).result()) == expected
    assert executor.submit(_submit_with_too_much_memory).result() == expected
