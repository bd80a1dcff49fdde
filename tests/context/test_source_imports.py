"""Imports in source are found without running it, each with how much it is needed."""

from __future__ import annotations

import ast
import textwrap

import pytest

from gristmill._context import imports, parts
from gristmill._context.imports import NEVER, OPTIONAL, REQUIRED, Import


def scan(source: str, package: str = "") -> imports.Scan:
    return imports.of_source(textwrap.dedent(source), "program.py", package)


def needs(source: str) -> dict[str, str]:
    return {found.module: found.need for found in scan(source).imports}


def test_each_import_has_its_line_and_what_is_taken_from_it() -> None:
    found = scan("""
        import numpy as np, os.path
        from google import protobuf, api
        def f():
            async def g():
                from a.b import *
    """)
    assert found.imports == [
        Import("numpy", "line 2 of program.py"),
        Import("os.path", "line 2 of program.py"),
        Import("google", "line 3 of program.py", ("protobuf", "api")),
        Import("a.b", "line 6 of program.py, in f"),
    ]
    assert found.notes == []


def test_relative_imports_are_resolved_against_the_package() -> None:
    found = scan("from . import one\nfrom ..two import three\nfrom .. import four", "a.b")
    assert [(one.module, one.names) for one in found.imports] == [
        ("a.b", ("one",)),
        ("a.two", ("three",)),
        ("a", ("four",)),
    ]
    outside = scan("from ... import one", "a.b")
    assert outside.imports == []
    assert "leads outside all packages" in outside.notes[0]


def test_what_only_type_checkers_and_other_platforms_import_is_told_apart() -> None:
    assert needs("""
        import sys, typing
        from typing import TYPE_CHECKING
        if TYPE_CHECKING:
            import for_types
        if typing.TYPE_CHECKING or False:
            import for_types_too
        if sys.platform == "win32" and unknown():
            import of_windows
        elif not sys.platform.startswith("win"):
            import of_others
        else:
            import of_windows_too
        if sys.version_info < (3, 8):
            import of_old
        if sys.version_info[:2] >= (3, 11):
            import of_new
        if unknown():
            import perhaps
    """) == {
        "sys": REQUIRED,
        "typing": REQUIRED,
        "for_types": NEVER,
        "for_types_too": NEVER,
        "of_windows": NEVER,
        "of_others": REQUIRED,
        "of_windows_too": NEVER,
        "of_old": NEVER,
        "of_new": REQUIRED,
        "perhaps": REQUIRED,
    }


def test_an_import_whose_failure_is_caught_is_optional() -> None:
    found = scan("""
        try:
            import fast
        except (OSError, ImportError):
            import slow
        with contextlib.suppress(ModuleNotFoundError):
            import nice
        if importlib.util.find_spec("plot"):
            import plot
        try:
            import needed
        except ImportError as error:
            raise SystemExit("install it") from error
        try:
            import needed_too
        except ValueError:
            pass
    """)
    assert [(one.module, one.need, one.unless) for one in found.imports] == [
        ("fast", OPTIONAL, ()),
        ("slow", REQUIRED, ("fast",)),
        ("nice", OPTIONAL, ()),
        ("plot", OPTIONAL, ()),
        ("needed", REQUIRED, ()),
        ("needed_too", REQUIRED, ()),
    ]


def test_modules_that_are_named_as_text_are_found_and_computed_ones_noted() -> None:
    found = scan(
        """
        importlib.import_module("a.b")
        import_module(".c", package=__package__)
        import_module(".d", "other")
        __import__("e")
        importlib.import_module(name)
        """,
        "own",
    )
    assert [one.module for one in found.imports] == ["a.b", "own.c", "other.d", "e"]
    assert found.notes == [
        "line 6 of program.py: importlib.import_module(name): only a run can show which module that is"
    ]


PROGRAM = """
import numpy as np
import scipy
import pandas
from plots import style
import settings
TABLE = {"size": np.ones(3)}
TABLE["more"] = settings.more
class Model(pandas.DataFrame):
    def run(self):
        return 1
def helper(x):
    return TABLE[x]
def work(x):
    import late
    return helper(x)
def other():
    return scipy, style, Model
"""


@pytest.mark.parametrize(
    ("name", "modules"),
    [
        ("work", {"numpy", "settings", "late"}),
        ("Model.run", {"pandas"}),
        ("other", {"scipy", "plots", "pandas"}),
        ("TABLE", {"numpy", "settings"}),
    ],
)
def test_one_function_needs_what_it_uses_and_what_that_uses(name: str, modules: set[str]) -> None:
    statements = parts.part_of(ast.parse(PROGRAM), name)
    found = imports.of_statements(statements, "program.py").imports
    assert {one.module for one in found} == modules


def test_a_function_that_is_not_there_is_refused() -> None:
    tree = ast.parse(PROGRAM)
    with pytest.raises(LookupError):
        parts.part_of(tree, "nothing")
    assert parts.functions_of(tree) == ["Model", "helper", "work", "other"]


def test_names_that_a_function_sets_for_others_are_followed() -> None:
    program = """
        def load():
            global model
            import torch
            model = torch.load()
        def use():
            return model
    """
    statements = parts.part_of(ast.parse(textwrap.dedent(program)), "use")
    found = imports.of_statements(statements, "program.py").imports
    assert [one.module for one in found] == ["torch"]
