"""Names in a list of omitted tests of other projects, and the tests that they stand for."""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import Any

import pytest

_CONFORMANCE = Path(__file__).parents[1] / "conformance"


@pytest.fixture
def entry_of(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.syspath_prepend(str(_CONFORMANCE))
    left_out = importlib.import_module("left_out")
    return lambda name: left_out.Entry("a reason", frozenset(), (name,), ())


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("*::test_one", ["a.py::A::test_one[x]", "a.py::A::test_one[y]", "b.py::test_one"]),
        ("*::test_one[x]", ["a.py::A::test_one[x]"]),
        ("a.py::A::test_one[y]", ["a.py::A::test_one[y]"]),
        ("a.py", ["a.py::A::test_one[x]", "a.py::A::test_one[y]"]),
    ],
)
def test_a_name_stands_for_a_test_or_one_of_its_cases(
    entry_of: Any, name: str, expected: list[str]
) -> None:
    tests = [
        "a.py::A::test_one[x]",
        "a.py::A::test_one[y]",
        "b.py::test_one",
        "b.py::test_one_more",
    ]
    entry = entry_of(name)
    assert [test for test in tests if entry.matches(test, ())] == expected
    assert entry.unmatched == []


#: Suites whose left out tests are run and have to fail, with the bound on their functions together.
SUITES = ("cloudpickle", "cpython", "dask", "joblib", "loky", "mpi4py", "pebble")
FUNCTIONS = 35


@pytest.fixture
def left_out(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.syspath_prepend(str(_CONFORMANCE))
    return importlib.import_module("left_out")


def test_each_test_that_is_left_out_has_one_of_two_reasons(left_out: Any) -> None:
    for name in SUITES:
        path = _CONFORMANCE / name / "left-out.toml"
        assert left_out.are_run(path), name
        left_out.read(path)


@pytest.mark.parametrize(
    ("reason", "expected"),
    [
        ("", "either private or docs"),
        ('private = true\ndocs = "how-to/from-dask.md#futures"', "either private or docs"),
        ('docs = "how-to/from-dask.md#no-such-heading"', "no such heading"),
        ('docs = "how-to/no-such-page.md#futures"', "no such heading"),
    ],
)
def test_another_reason_is_refused(
    left_out: Any, tmp_path: Path, reason: str, expected: str
) -> None:
    path = tmp_path / "left-out.toml"
    entry = f'[[left-out]]\nruns = ["whole"]\ntests = ["test_one"]\nreason = "some"\n{reason}\n'
    path.write_text(f"are-run = true\n{entry}")
    with pytest.raises(ValueError, match=expected):
        left_out.read(path)


def test_the_functions_that_are_left_out_do_not_become_more(left_out: Any) -> None:
    functions = set()
    for name in SUITES:
        for entry in left_out.read(_CONFORMANCE / name / "left-out.toml"):
            functions |= {(name, left_out.function_of(test)) for test in entry["tests"]}
    assert len(functions) == FUNCTIONS
