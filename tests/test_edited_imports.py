"""Modules that a function needs, edited and reloaded in the program: workers run the new code, or report that they
cannot.
"""

from __future__ import annotations

import ast
import functools
import importlib
import inspect
import sys
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from gristmill import Context, ContextWorkers, Executor, _functions, _imports, _watch

from written import Folder, outcome

HELPER = """
import contextlib, functools
CONSTANT = {0}
TABLE = {{"a": {0}}}
class Settings:
    def get(self):
        return {0}
settings = Settings()
bound = settings.get
part = functools.partial(lambda value: value, {0})
unnamed = lambda: {0}
class Base:
    def number(self):
        return {0}
@functools.cache
def cached():
    return {0}
def number():
    return {0}
@contextlib.contextmanager
def manager():
    yield {0}
def decorator(function):
    @functools.wraps(function)
    def inner():
        return {0}
    return inner
"""

#: Uses that a module makes of its helper, the module ``{0}``.
WAYS = {
    "constant": "from {0} import CONSTANT\ndef call(): return CONSTANT\n",
    "table": "from {0} import TABLE\ndef call(): return TABLE['a']\n",
    "instance": "from {0} import settings\ndef call(): return settings.get()\n",
    "bound method": "from {0} import bound\ndef call(): return bound()\n",
    "partial": "from {0} import part\ndef call(): return part()\n",
    "lambda": "from {0} import unnamed\ndef call(): return unnamed()\n",
    "cached function": "from {0} import cached\ndef call(): return cached()\n",
    "context manager": "from {0} import manager\ndef call():\n with manager() as value: return value\n",
    "every name": "from {0} import *\ndef call(): return number()\n",
    "base class": "from {0} import Base\nclass C(Base): pass\ndel Base\ndef call(): return C().number()\n",
    "decorator": "from {0} import decorator\n@decorator\ndef call(): return 0\ndel decorator\n",
    "default": "from {0} import CONSTANT\ndef call(values=[CONSTANT]): return values[0]\n",
    "in a class": "class C:\n from {0} import CONSTANT as value\ndef call(): return C.value\n",
    "in a method": "class C:\n def go(self):\n  import {0} as helper\n  return helper.number()\ndef call(): return C().go()\n",
    "in a cached function": "import functools\n@functools.lru_cache\ndef cached():\n from {0} import number\n"
    " return number()\ndef call(): return cached()\n",
    "in an inner function": "def call():\n def inner():\n  from {0} import number\n  return number()\n return inner()\n",
    "relative": "def call():\n from .helper import number\n return number()\n",
    "relative to the package": "def call():\n from . import helper\n return helper.number()\n",
    "relative to the parent": "def call():\n from ..package import helper\n return helper.number()\n",
    "relative at load": "from .helper import CONSTANT\ndef call(): return CONSTANT\n",
    "dotted": "def call():\n import {0}\n return {0}.number()\n",
}


@pytest.mark.interpreter
@pytest.mark.parametrize("way", WAYS)
def test_what_a_module_has_of_its_helper(
    folder: Folder, make_executor: Callable[..., Executor], way: str
) -> None:
    for package in ("outer", "outer.package"):
        folder.write(f"{package}.__init__", "")
        folder.written.add(package)
    folder.write("outer.package.helper", HELPER.format(1))
    folder.write("outer.package.user", WAYS[way].format("outer.package.helper"))
    helper = folder.load("outer.package.helper")
    module = folder.load("outer.package.user")
    executor = make_executor(1)
    assert outcome(executor, module.call) == 1
    assert outcome(executor, lambda: module.call()) == 1
    folder.write("outer.package.helper", HELPER.format(2))
    importlib.reload(helper)
    importlib.reload(module)
    assert module.call() == 2
    assert outcome(executor, lambda: module.call()) == 2
    assert outcome(executor, module.call) == 2
    assert outcome(make_executor(1), module.call) == 2


def _lambda(helper: Any) -> Callable[[], int]:
    held = helper.Settings()
    return lambda: held.get()


def _lambda_of_list(helper: Any) -> Callable[[], int]:
    held = [helper.Settings()]
    return lambda: held[0].get()


def _default(helper: Any) -> Callable[[], int]:
    return lambda held=helper.settings: held.get()


def _partial(helper: Any) -> Callable[[], int]:
    return functools.partial(lambda held: held.get(), helper.Settings())


class Held:
    """An object of the program that holds an object of the helper."""

    def __init__(self, inner: Any) -> None:
        self.inner = inner

    def get(self) -> Any:
        return self.inner.get()


def _class(helper: Any) -> Callable[[], int]:
    base: Any = helper.Base

    class Local(base):  # type: ignore[misc]
        pass

    return lambda: Local().number()


CAPTURED: dict[str, Callable[[Any], Callable[[], int]]] = {
    "bound method": lambda helper: helper.Settings().get,
    "partial of a bound method": lambda helper: functools.partial(helper.Settings().get),
    "partial of an instance": _partial,
    "instance": _lambda,
    "instance in a list": _lambda_of_list,
    "instance as a default": _default,
    "instance in an instance": lambda helper: Held(helper.settings).get,
    "base of a local class": _class,
    "cached function": lambda helper: lambda held=helper.cached: held(),
}


@pytest.mark.interpreter
@pytest.mark.parametrize("kind", CAPTURED)
def test_what_a_function_by_value_has_of_a_helper(
    folder: Folder, make_executor: Callable[..., Executor], kind: str
) -> None:
    folder.write("captured_helper", HELPER.format(1))
    helper = folder.load("captured_helper")
    executor = make_executor(1)
    assert outcome(executor, CAPTURED[kind](helper)) == 1
    folder.write("captured_helper", HELPER.format(2))
    importlib.reload(helper)
    assert CAPTURED[kind](helper)() == 2
    assert outcome(executor, CAPTURED[kind](helper)) == 2


LATE = "def call():\n    from {0} import VALUE\n    return VALUE\n"


@pytest.mark.interpreter
@pytest.mark.parametrize("helper", ["late_helper", "late_package.helper"])
@pytest.mark.parametrize("loaded", ["first", "between", "last", "never"])
def test_a_constant_of_a_helper_that_calls_import(
    folder: Folder, make_executor: Callable[..., Executor], loaded: str, helper: str
) -> None:
    """The program loads the helper before the first call, after it, after the edit, or never."""
    folder.write("late_package.__init__", "")
    folder.written.add("late_package")
    folder.write("late_module", LATE.format(helper))
    folder.write(helper, "VALUE = 1\n")
    module = folder.load("late_module")
    if loaded == "first":
        folder.load(helper)
    executor = make_executor(1)
    assert outcome(executor, module.call) == 1
    if loaded == "between":
        folder.load(helper)
    folder.write(helper, "VALUE = 2\n")
    if loaded in ("first", "between"):
        importlib.reload(sys.modules[helper])
    if loaded != "never":
        assert module.call() == 2
    # If the program has not loaded the helper, the worker keeps the version that it has loaded.
    assert outcome(executor, module.call) == (1 if loaded == "never" else 2)
    assert outcome(make_executor(1), module.call) == 2


@pytest.mark.interpreter
def test_a_constant_of_a_helper_that_a_lambda_imports(
    folder: Folder, make_executor: Callable[..., Executor]
) -> None:
    folder.write("late_for_lambda", "VALUE = 1\n")

    def call() -> Any:
        from late_for_lambda import VALUE  # type: ignore[import-not-found]

        return VALUE

    executor = make_executor(1)
    assert outcome(executor, call) == 1
    folder.write("late_for_lambda", "VALUE = 2\n")
    assert call() == 2
    assert outcome(executor, call) == 2


def _import_user() -> dict[str, Any]:
    importlib.import_module("early_user")
    return {}


def _grow_older() -> None:
    """Makes this worker's modules look one second older."""
    for name in _watch.sought_ns:
        _watch.sought_ns[name] -= 10**9


#: Ways for workers to load a module before a function needs it.
EARLY: dict[str, Callable[[Callable[..., Executor]], Any]] = {
    "preload": lambda make: make(1, preload=["early_user"]),
    "preload in workers": lambda make: make(1, preload=["early_user"], start="spawn"),
    "initializer": lambda make: make(1, initializer=_import_user),
    "context": lambda make: make(1).options(
        context=Context(dict, workers=ContextWorkers(preload=["early_user"]))
    ),
    "setup": lambda make: make(1).options(context=Context(_import_user)),
}


@pytest.mark.interpreter
@pytest.mark.parametrize("way", EARLY)
def test_a_constant_of_a_module_that_workers_had_before(
    folder: Folder, make_executor: Callable[..., Executor], way: str
) -> None:
    folder.write("early_helper", "VALUE = 1\n")
    folder.write("early_user", "from early_helper import VALUE\ndef call(): return VALUE\n")
    module = folder.load("early_user")
    executor = EARLY[way](make_executor)
    executor.submit(_grow_older).result()
    # The file gets the time of the edit.
    (folder.path / "early_helper.py").write_text("VALUE = 1 + 1\n")
    importlib.reload(sys.modules["early_helper"])
    importlib.reload(module)
    assert module.call() == 2
    assert outcome(executor, module.call) == 2


def test_when_a_module_was_loaded_is_not_when_it_was_looked_for(folder: Folder) -> None:
    _watch.begin()
    folder.write("looked_for", "VALUE = 1\n")
    module = folder.load("looked_for")
    loaded = _watch.sought_ns["looked_for"]
    for finder in sys.meta_path:
        finder.find_spec("looked_for", None)
    assert _watch.sought_ns["looked_for"] == loaded
    importlib.reload(module)
    assert _watch.sought_ns["looked_for"] > loaded


@pytest.mark.interpreter
def test_modules_that_import_each_other(
    folder: Folder, make_executor: Callable[..., Executor]
) -> None:
    folder.write(
        "circle_low",
        "VALUE = 1\ndef call():\n    from circle_high import DOUBLE\n    return DOUBLE\n",
    )
    folder.write("circle_high", "from circle_low import VALUE\nDOUBLE = 2 * VALUE\n")
    low = folder.load("circle_low")
    high = folder.load("circle_high")
    executor = make_executor(1)
    assert outcome(executor, low.call) == 2
    folder.write(
        "circle_low",
        "VALUE = 2\ndef call():\n    from circle_high import DOUBLE\n    return DOUBLE\n",
    )
    importlib.reload(low)
    importlib.reload(high)
    assert low.call() == 4
    assert outcome(executor, low.call) == 4


@pytest.fixture
def read(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Returns the list of modules whose imports are read."""
    names: list[str] = []
    before = _imports.of_module

    def counted(code: Any, package: str) -> Any:
        names.append(code.co_filename.rpartition("/")[2])
        return before(code, package)

    monkeypatch.setattr(_imports, "of_module", counted)
    return names


def test_each_module_is_read_once_however_many_functions_are_defined(
    folder: Folder, read: list[str]
) -> None:
    folder.write("many.__init__", "")
    folder.written.add("many")
    count = 50
    for index in range(count):
        text = f"from .part_{(index + 1) % count} import VALUE\n" if index < count - 1 else ""
        folder.write(f"many.part_{index}", text + f"VALUE = {index}\n")
    functions = "".join(f"def call_{index}(): return VALUE + {index}\n" for index in range(1000))
    folder.write("many.calls", "from .part_0 import VALUE\n" + functions)
    module = folder.load("many.calls")
    definitions = {_functions.definition(getattr(module, f"call_{index}")) for index in range(1000)}
    assert len(definitions) == 1000
    assert sorted(read) == sorted(["calls.py", *(f"part_{index}.py" for index in range(count))])
    # Only a reloaded module is read again.
    read.clear()
    importlib.reload(sys.modules["many.part_7"])
    _functions.definition(module.call_0)
    assert read == ["part_7.py"]


STATEMENTS = """
import a, b.c as d
from e import *
from .f import g as h, i
from .. import j
from ...k.l import m
class C:
    import n
    def method(self):
        from . import o
        return lambda: __import__("p")
async def q():
    from r.s import (t,
        u)
def v():
    import w; import x.y.z
"""


def test_the_imports_of_code() -> None:
    code = compile(STATEMENTS, "", "exec")
    at_load, in_calls = _imports.of_module(code, "one.two.three")
    assert at_load == (
        *[("a", ()), ("b.c", ()), ("b", ()), ("e", ()), ("one.two.three.f", ("g", "i"))],
        *[("one.two", ("j",)), ("one.k.l", ("m",)), ("n", ())],
    )
    assert sorted(in_calls) == [
        *[("one.two.three", ("o",)), ("r.s", ("t", "u")), ("w", ())],
        *[("x", ()), ("x.y", ()), ("x.y.z", ())],
    ]
    # An import with more levels than exist raises an error when it runs.
    assert _imports.of_module(compile("from ..a import b", "", "exec"), "one") == ((), ())
    assert _imports.of_module(compile("from .a import b", "", "exec"), "") == ((), ())


def _by_tree(source: str) -> Iterator[tuple[str, tuple[str, ...]]]:
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.ImportFrom) and not node.level:
            yield node.module or "", tuple(one.name for one in node.names if one.name != "*")
        elif isinstance(node, ast.Import):
            for one in node.names:
                parts = one.name.split(".")
                yield from ((".".join(parts[:count]), ()) for count in range(1, len(parts) + 1))


@pytest.mark.parametrize(
    "name", ["argparse", "inspect", "pickle", "typing", "unittest.mock", "xml.dom.minidom"]
)
def test_the_imports_of_code_are_those_of_its_source(name: str) -> None:
    source = inspect.getsource(importlib.import_module(name))
    at_load, in_calls = _imports.of_module(compile(source, "", "exec"), "")
    assert {*at_load, *in_calls} == set(_by_tree(source))


def test_names_beyond_256_in_one_body() -> None:
    names = [f"module_{index}" for index in range(700)]
    source = "\n".join(f"from {name} import part_{name}" for name in names)
    at_load, _ = _imports.of_module(compile(source, "", "exec"), "")
    assert at_load == tuple((name, (f"part_{name}",)) for name in names)
