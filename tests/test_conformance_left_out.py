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
