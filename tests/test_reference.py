"""The reference is true: examples of docstrings run, the stub says what the native part says, tables are complete."""

from __future__ import annotations

import ast
import doctest
import importlib.util
import inspect
import re
from pathlib import Path
from types import ModuleType

import pytest

import gristmill
from gristmill import native, on, parsl

ROOT = Path(__file__).parent.parent
STUB = ast.parse((ROOT / "python/gristmill/_native.pyi").read_text())
#: Public objects whose docstrings must have an example.
WITH_EXAMPLES = {
    "gristmill.BoundExecutor",
    "gristmill.Context",
    "gristmill.Executor",
    "gristmill.Future",
    "gristmill.Lease",
    "gristmill.array",
    "gristmill.on.local",
    "gristmill.wait_any",
}
#: Native classes with public methods.
NATIVE = {"Future": gristmill.Future, "BoundEngine": gristmill.BoundExecutor}
#: Variables of the build and of single tests, and beginnings of names.
INTERNAL_VARIABLES = {
    "GRISTMILL_KEEPER_IMAGE",
    "GRISTMILL_KEEPER_X",
    "GRISTMILL_MEMORY_FOLDER",
    "GRISTMILL_NO_KEEPER",
    "GRISTMILL_OBSERVED",
    "GRISTMILL_PROFILE",
    "GRISTMILL_TEST_EXECUTES",
}
_FENCE = re.compile(r"^```pycon\n(.*?)^```", re.MULTILINE | re.DOTALL)


def _stub_class(name: str) -> ast.ClassDef:
    return next(one for one in STUB.body if isinstance(one, ast.ClassDef) and one.name == name)


def _docstring(value: object) -> str:
    """Returns an object's own docstring: of a plain value, such as the default of a field, and of what a class has from
    Parsl, there is none.
    """
    is_parsls = str(getattr(value, "__module__", "")).startswith("parsl.")
    has_own = (callable(value) or isinstance(value, (property, classmethod))) and not is_parsls
    return (inspect.getdoc(value) or "") if has_own else ""


def _docstrings() -> dict[str, str]:
    """Returns the docstrings of all public objects and their public methods, by name."""
    found = {}
    for module in (gristmill, native, on, parsl):
        for name in module.__all__:
            kind = getattr(module, name)
            path = f"{module.__name__}.{name}"
            found[path] = _docstring(kind)
            if isinstance(kind, type):
                for method, value in vars(kind).items():
                    if not method.startswith("_"):
                        found[f"{path}.{method}"] = _docstring(value)
    found["gristmill.Future"] = ast.get_docstring(_stub_class("Future")) or ""
    return found


DOCSTRINGS = _docstrings()
EXAMPLES = {path: "\n".join(_FENCE.findall(text)) for path, text in DOCSTRINGS.items()}


def test_the_central_names_have_examples() -> None:
    assert {path for path, text in EXAMPLES.items() if text} >= WITH_EXAMPLES


def test_each_example_is_in_a_fence_that_runs() -> None:
    bare = [path for path, text in DOCSTRINGS.items() if ">>>" in _FENCE.sub("", text)]
    assert bare == []


@pytest.mark.parametrize("path", [path for path, text in EXAMPLES.items() if text])
def test_the_example_of_a_docstring_prints_what_it_shows(path: str) -> None:
    names = {"__name__": "__main__"}
    example = doctest.DocTestParser().get_doctest(EXAMPLES[path], names, path, None, None)
    assert example.examples
    printed: list[str] = []
    result = doctest.DocTestRunner(verbose=False).run(example, out=printed.append)
    assert result.failed == 0, "".join(printed)


def _words(text: str | None) -> str:
    return " ".join((text or "").replace("`", "").split())


def _documented_in_stub() -> dict[str, tuple[str, str]]:
    """Returns the docstrings of the stub and of the native part, by the name of the method."""
    found = {}
    for name, kind in NATIVE.items():
        for method in _stub_class(name).body:
            is_method = isinstance(method, ast.FunctionDef) and not method.decorator_list
            if is_method and (text := ast.get_docstring(method)):
                found[f"{name}.{method.name}"] = text, getattr(kind, method.name).__doc__ or ""
    return found


def test_the_stub_begins_with_what_the_native_part_says() -> None:
    documented = _documented_in_stub()
    public = {name for name in vars(gristmill.Future) if not name.startswith(("_", "set_"))}
    assert {f"Future.{name}" for name in public} <= documented.keys()
    for name, (stub, compiled) in documented.items():
        assert _words(compiled), name
        assert _words(stub).startswith(_words(compiled)), name


def test_the_reference_lists_each_environment_variable_and_no_other() -> None:
    page = (ROOT / "docs/reference/config.md").read_text()
    sources = [*(ROOT / "python").rglob("*.py"), *(ROOT / "crates").glob("*/src/**/*.rs")]
    used = {one for path in sources for one in _variables(path.read_text())}
    assert set(_variables(page)) == used - INTERNAL_VARIABLES


def _variables(text: str) -> list[str]:
    return re.findall(r"\bGRISTMILL_[A-Z_]*[A-Z]\b", text)


def _script(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(name, ROOT / f"scripts/{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_page_of_the_command_line_is_what_the_parsers_say() -> None:
    script = _script("command_reference")
    assert script.PAGE.read_text() == script.page(), "run: python scripts/command_reference.py"


def test_the_comments_of_fields_are_in_the_docstring_of_their_class() -> None:
    griffe = pytest.importorskip("griffe")
    extensions = griffe.load_extensions("griffe_sphinx", str(ROOT / "scripts/field_comments.py"))
    package = griffe.load(
        "gristmill",
        allow_inspection=False,
        search_paths=[ROOT / "python"],
        extensions=extensions,
    )
    lines = package["_counts.Stats"].docstring.value.splitlines()
    assert ":var submitted: Tasks that were accepted." in lines
    listed = {line.split(":")[1].removeprefix("var ") for line in lines if line.startswith(":var")}
    assert listed == set(gristmill.Stats.__dataclass_fields__)
