"""Requirements of functions that exist only as objects: without source, and with all values that they are sent with."""

from __future__ import annotations

import functools
import importlib
import types
from typing import Any

import pytest

from gristmill._context.imports import OPTIONAL, REQUIRED, Import
from gristmill._context.objects import Reached, of_objects

pytestmark = pytest.mark.interpreter


def run(source: str) -> dict[str, Any]:
    """Runs a program that has no file, as at a prompt; returns its globals."""
    names: dict[str, Any] = {"__name__": "__main__"}
    exec(source, names)
    return names


def needs(reached: Reached) -> dict[str, str]:
    return {found.module: found.why for found in reached.scan.imports}


def test_a_lambda_needs_the_modules_behind_its_globals() -> None:
    names = run(
        "import json as j, email.message as m\nfrom decimal import Decimal as D\nf = lambda: (j.dumps, m.Message, D)"
    )
    assert needs(of_objects([names["f"]])) == {
        "json": "global 'j' of function <lambda>",
        "email.message": "global 'm' of function <lambda>",
        "decimal": "global 'D' of function <lambda>",
    }


def test_a_chain_of_modules_is_followed_to_its_end() -> None:
    names = run("import xml.dom.minidom\nf = lambda text: xml.dom.minidom.parseString(text)")
    assert list(needs(of_objects([names["f"]]))) == ["xml.dom.minidom"]


def test_an_attribute_that_has_the_name_of_a_global_is_not_that_global() -> None:
    names = run("import json\ndef f(x): return x.json")
    assert needs(of_objects([names["f"]])) == {}


IMPORTS = """
def f():
    try:
        import fast
    except (KeyError, ImportError) as error:
        import slow
    import plain
    def inner():
        from package import part
    import importlib
    importlib.import_module("dynamic.module")
    try:
        __import__("other")
        try:
            import bare
        except:
            import instead
    finally:
        import last
    with open("file") as file:
        import within
"""


def test_imports_in_compiled_code_are_told_apart() -> None:
    found = of_objects([run(IMPORTS)["f"]]).scan.imports
    assert {(one.module, one.names, one.need, one.unless) for one in found} == {
        ("fast", (), OPTIONAL, ()),
        ("slow", (), REQUIRED, ("fast",)),
        ("plain", (), REQUIRED, ()),
        ("package", ("part",), REQUIRED, ()),
        ("importlib", (), REQUIRED, ()),
        ("dynamic.module", (), REQUIRED, ()),
        ("other", (), REQUIRED, ()),
        ("bare", (), OPTIONAL, ()),
        ("instead", (), REQUIRED, ("bare",)),
        ("last", (), REQUIRED, ()),
        ("within", (), REQUIRED, ()),
    }
    assert Import("plain", "imported by function f, line 7") in found


ALONG = """
import functools, json, decimal, fractions, statistics, textwrap, calendar
class Base:
    def run(self):
        return json.dumps
class Model(Base):
    @property
    def size(self):
        return decimal.Decimal(1)
    @staticmethod
    def load():
        return cached()
@functools.cache
def cached():
    return fractions.Fraction(1)
def around(g):
    @functools.wraps(g)
    def call(*args, table={"mean": lambda x: statistics.mean(x)}):
        return g(*args)
    return call
@around
def f(model):
    return textwrap.dedent("")
unused = calendar
task = functools.partial(f, Model())
"""


def test_all_that_goes_along_is_followed() -> None:
    reached = of_objects([run(ALONG)["task"]])
    found = needs(reached)
    assert {"json", "decimal", "fractions", "statistics", "textwrap"} <= found.keys()
    assert "calendar" not in found
    assert {"Model", "Base", "cached", "f"} <= set(reached.by_value)


def test_what_can_be_imported_needs_its_module_and_no_more() -> None:
    reached = of_objects([importlib.import_module, functools.partial(ast_dump, 1)])
    assert {"importlib", __name__} <= needs(reached).keys()
    assert "ast" not in needs(reached)
    assert reached.by_value == []


def ast_dump(value: object) -> str:
    """Imports a module in its body, as a function of a module."""
    import ast

    return ast.dump(ast.parse(str(value)))


def test_objects_that_hold_themselves_come_to_an_end() -> None:
    loop: list[Any] = [importlib]
    loop.append(loop)
    function = types.FunctionType((lambda: loop_).__code__, {"loop_": loop})  # type: ignore[name-defined] # noqa: F821
    assert list(needs(of_objects([function]))) == ["importlib"]
