"""Each node reports which distributions it lacks, from its own list."""

from __future__ import annotations

import dataclasses

import pytest

from gristmill._context.difference import Difference, difference, is_same_version, unlike
from gristmill._context.environment import Interpreter

HERE = Interpreter(
    "cpython", "3.11.7", "cpython-311-x86_64-linux-gnu", "linux-x86_64", "glibc 2.34"
)


def test_distributions_are_missing_other_or_the_same() -> None:
    wanted = [("numpy", "2.0"), ("Py_YAML", "6.0"), ("torch", "2.1+cu118"), ("dask", "2024.1.0")]
    there = [("NumPy", "2.0.0"), ("py-yaml", "5.4"), ("torch", "2.1"), ("more", "1")]
    found = difference(wanted, there)
    assert found.missing == ("dask",)
    assert found.same == ("numpy",)
    assert found.other == (("Py_YAML", "6.0", "5.4"), ("torch", "2.1+cu118", "2.1"))
    assert found


def test_no_difference_is_false() -> None:
    assert not difference([("a", "1")], [("a", "1"), ("b", "2")], (HERE, HERE))
    assert not Difference((), (), ("a",))


@pytest.mark.parametrize(
    ("one", "other", "is_same"),
    [("1.0", "1", True), ("1.0rc1", "1.0", False), ("odd!", "odd!", True), ("odd!", "1", False)],
)
def test_versions_are_compared_as_versions(one: str, other: str, is_same: bool) -> None:
    assert is_same_version(one, other) is is_same


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"version": "3.11.9"}, []),
        ({"version": "3.12.0"}, ["Python is cpython 3.11 here and cpython 3.12 there"]),
        ({"libc": "glibc 2.9"}, ["the C library is glibc 2.34 here and only glibc 2.9 there"]),
        ({"libc": "glibc 2.39"}, []),
        ({"libc": "musl 1.2"}, ["the C library is glibc 2.34 here and only musl 1.2 there"]),
        ({"libc": None}, []),
        (
            {"platform": "linux-aarch64"},
            ["the platform is linux-x86_64 here and linux-aarch64 there"],
        ),
    ],
)
def test_interpreters_that_cannot_share_compiled_modules_are_told(
    change: dict[str, str], words: list[str]
) -> None:
    assert unlike(HERE, dataclasses.replace(HERE, **change)) == words
