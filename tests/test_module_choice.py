"""Functions of modules: the caller's code runs, by name or by value, or an error gives the reason."""

from __future__ import annotations

import importlib
import importlib.util
import subprocess
import sys
import types
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from gristmill import Executor
from gristmill._errors import StaleModuleError

from stage import Script
from written import Folder, outcome

pytestmark = pytest.mark.interpreter


MAIN = """
import helper
from helper import number, Thing
def direct():
    return helper.number()
def imported():
    return number()
def constant():
    return helper.CONSTANT
def local():
    import local_helper
    return local_helper.number()
def deep():
    return helper.below()
def thing():
    return Thing().number()
"""
HELPER = """
import below_helper
CONSTANT = {0}
def number():
    return {0}
def below():
    return below_helper.number()
class Thing:
    def number(self):
        return {0}
"""
BELOW = "VALUE = {0}\ndef number():\n    return VALUE\n"


def _write_all(folder: Folder, value: int) -> None:
    folder.write("below_helper", BELOW.format(value))
    folder.write("local_helper", BELOW.format(value))
    folder.write("helper", HELPER.format(value))


NAMES = ["direct", "imported", "constant", "local", "deep", "thing"]


@pytest.mark.parametrize("is_by_value", [False, True])
@pytest.mark.parametrize("name", NAMES)
def test_a_helper_that_was_edited_and_reloaded_is_the_new_one_in_workers(
    folder: Folder, make_executor: Callable[..., Executor], name: str, is_by_value: bool
) -> None:
    folder.write("main_module", MAIN)
    _write_all(folder, 1)
    module = folder.load("main_module")
    folder.load("local_helper")

    def task() -> Callable[[], Any]:
        function: Callable[[], Any] = getattr(module, name)
        return (lambda: function()) if is_by_value else function

    executor = make_executor(1)
    assert outcome(executor, task()) == 1
    _write_all(folder, 2)
    for one in ("below_helper", "local_helper", "helper", "main_module"):
        importlib.reload(sys.modules[one])
    assert task()() == 2
    assert outcome(executor, task()) == 2
    assert outcome(make_executor(1), task()) == 2


def test_a_helper_that_was_reloaded_below_a_function_that_stays(
    folder: Folder, make_executor: Callable[..., Executor]
) -> None:
    folder.write("main_module", MAIN)
    _write_all(folder, 1)
    module = folder.load("main_module")
    executor = make_executor(1)
    function = module.constant
    assert [outcome(executor, function) for _ in range(3)] == [1, 1, 1]
    _write_all(folder, 2)
    importlib.reload(sys.modules["helper"])
    # This is the same function as before; its own code has not changed.
    assert function() == 2
    assert outcome(executor, function) == 2


@pytest.mark.parametrize("name", NAMES)
def test_a_helper_that_the_caller_has_not_reloaded_is_an_error(
    folder: Folder, make_executor: Callable[..., Executor], name: str
) -> None:
    folder.write("main_module", MAIN)
    _write_all(folder, 1)
    module = folder.load("main_module")
    folder.load("local_helper")
    function = getattr(module, name)
    executor = make_executor(1)
    assert outcome(executor, function) == 1
    _write_all(folder, 2)
    assert function() == 1
    # A worker that has loaded the old modules runs them; a worker that would load the new ones refuses.
    assert outcome(executor, function) == 1
    error = make_executor(1).submit(function).exception()
    assert isinstance(error, StaleModuleError)
    assert "helper" in str(error)


def test_unedited_modules_are_right(folder: Folder, make_executor: Callable[..., Executor]) -> None:
    folder.write(
        "plain_module",
        "import dataclasses, functools, typing\n"
        "def twice(f):\n    @functools.wraps(f)\n    def inner(*a):\n        return 2 * f(*a)\n    return inner\n"
        "@twice\ndef decorated(x):\n    return x\n"
        "if True:\n    def chosen():\n        return 1\nelse:\n    def chosen():\n        return 2\n"
        "def chosen_again():\n    return 1\ndef chosen_again():\n    return 2\n"
        "@dataclasses.dataclass\nclass Point:\n    x: int = 1\n    def get(self):\n        return self.x\n"
        "class Pair(typing.NamedTuple):\n    x: int\n"
        "def late():\n    global made\n    made = lambda: 3\n    return made()\n"
        "@functools.cache\ndef cached():\n    return 4\n"
        "alias = decorated\n",
    )
    module = folder.load("plain_module")
    for executor in (make_executor(1), make_executor(1, preload=["plain_module"])):
        assert executor.submit(module.decorated, 2).result() == 4
        assert executor.submit(module.alias, 2).result() == 4
        assert executor.submit(module.chosen).result() == 1
        assert executor.submit(module.chosen_again).result() == 2
        assert executor.submit(module.Point(5).get).result() == 5
        assert executor.submit(module.late).result() == 3
        assert executor.submit(module.cached).result() == 4


def test_code_that_was_replaced_in_place_runs_or_is_refused(
    folder: Folder, make_executor: Callable[..., Executor]
) -> None:
    folder.write("live", "def answer():\n    return 'old'\n")
    module = folder.load("live")
    executor = make_executor(1)
    assert outcome(executor, module.answer) == "old"
    # autoreload changes functions so while other code holds them.
    folder.write("live", "def answer():\n    return 'new'\n")
    fresh: dict[str, Any] = {}
    file = folder.path / "live.py"
    exec(compile(file.read_text(), str(file), "exec", dont_inherit=True), fresh)
    module.answer.__code__ = fresh["answer"].__code__
    assert outcome(executor, module.answer) == "new"
    assert outcome(make_executor(1), module.answer) in ("new", "stale")
    # This code is in no file.
    module.answer.__code__ = (lambda: "nowhere").__code__
    assert outcome(executor, module.answer) in ("nowhere", "stale")


def test_defaults_that_were_replaced_in_place_are_noticed(
    folder: Folder, make_executor: Callable[..., Executor]
) -> None:
    folder.write("live_defaults", "def answer(a=1, *, b=2):\n    return a, b\n")
    module = folder.load("live_defaults")
    executor = make_executor(1)
    assert outcome(executor, module.answer) == (1, 2)
    module.answer.__defaults__ = (5,)
    assert outcome(executor, module.answer) in ((5, 2), "stale")


def test_a_function_of_a_module_that_pytest_rewrites(tmp_path: Path) -> None:
    (tmp_path / "test_positive.py").write_text(
        "import gristmill\n"
        "import helper_of_tests\n"
        "def root(x):\n    assert x >= 0, 'negative'\n    return helper_of_tests.root(x)\n"
        "def test_root():\n"
        "    with gristmill.Executor(1) as executor:\n"
        "        assert executor.submit(root, 4).result() == 2\n"
        "        assert executor.submit(lambda: root(9)).result() == 3\n"
        "        assert isinstance(executor.submit(root, -4).exception(), AssertionError)\n"
    )
    (tmp_path / "helper_of_tests.py").write_text("def root(x):\n    return x**0.5\n")
    (tmp_path / "conftest.py").write_text(
        "import pytest\npytest.register_assert_rewrite('helper_of_tests')\n"
    )
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=tmp_path)
    assert done.returncode == 0, done.stdout[-3000:]


TEXT = """
factor = 3
class Item:
    __slots__ = ("value",)
    def __init__(self, value):
        self.value = value
    def scaled(self):
        return Item(self.value * factor)
def double(x):
    return 2 * x
def triple(x):
    return factor * double(x) // 2
def items():
    return [Item(1), Item(2)]
"""


def _check(executor: Executor, module: Any) -> None:
    """Uses all values of a module, in all ways."""
    assert executor.submit(module.double, 2).result() == 4
    assert executor.submit(module.triple, 2).result() == 6
    assert executor.submit(lambda: module.triple(3)).result() == 9
    assert list(executor.map(module.double, range(3))) == [0, 2, 4]
    assert executor.submit(module.Item(2).scaled).result().value == 6
    back = executor.submit(lambda item: item, module.Item(5)).result()
    assert (type(back), back.value) == (module.Item, 5)
    assert [item.value for item in executor.submit(module.items).result()] == [1, 2]


@pytest.fixture
def module_name() -> Iterator[str]:
    yield "module_of_the_test"
    sys.modules.pop("module_of_the_test", None)


def test_a_module_without_a_file_goes_by_value(shared: Executor, module_name: str) -> None:
    module = types.ModuleType(module_name)
    sys.modules[module_name] = module
    exec(TEXT, module.__dict__)
    _check(shared, module)


def test_a_module_that_no_path_leads_to_goes_by_value(
    shared: Executor, module_name: str, tmp_path: Path
) -> None:
    file = tmp_path / "elsewhere.py"
    file.write_text(TEXT)
    spec = importlib.util.spec_from_file_location(module_name, file)
    assert spec is not None
    assert spec.loader is not None
    module = sys.modules[module_name] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    _check(shared, module)


def test_a_module_of_a_path_that_is_gone_goes_by_value(
    make_executor: Callable[..., Executor], folder: Folder, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder.write("gone_with_its_path", TEXT)
    module = folder.load("gone_with_its_path")
    monkeypatch.setattr(sys, "path", [one for one in sys.path if one != str(folder.path)])
    _check(make_executor(1), module)


def test_a_module_of_a_loader_of_its_own_goes_by_value(
    shared: Executor, module_name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Finder:
        @staticmethod
        def find_spec(name: str, path: Any = None, target: Any = None) -> Any:
            if name != module_name:
                return None
            return importlib.util.spec_from_loader(name, Finder, origin=str(tmp_path / "a.ipynb"))  # type: ignore[arg-type]

        @staticmethod
        def create_module(_: Any) -> None:
            return None

        @staticmethod
        def exec_module(module: types.ModuleType) -> None:
            exec(TEXT, module.__dict__)

    monkeypatch.setattr(sys, "meta_path", [*sys.meta_path, Finder])
    _check(shared, importlib.import_module(module_name))


def test_a_module_that_is_registered_goes_by_value(
    make_executor: Callable[..., Executor], folder: Folder
) -> None:
    import cloudpickle

    folder.write("registered.__init__", "")
    folder.write("registered.within", TEXT)
    folder.written |= {"registered"}
    module = folder.load("registered.within")
    cloudpickle.register_pickle_by_value(sys.modules["registered"])
    try:
        # Workers would find another module in this file.
        folder.write("registered.within", "raise ImportError('not this one')")
        _check(make_executor(1), module)
    finally:
        cloudpickle.unregister_pickle_by_value(sys.modules["registered"])


def test_a_change_of_a_module_that_goes_by_value_is_seen(
    make_executor: Callable[..., Executor], folder: Folder, module_name: str
) -> None:
    import cloudpickle

    made = types.ModuleType("made")
    without_path = types.ModuleType(module_name)
    sys.modules[module_name] = without_path
    folder.write("registered_module", "")
    registered = folder.load("registered_module")
    cloudpickle.register_pickle_by_value(registered)
    executor = make_executor(1)
    try:
        for module in (made, without_path, registered):

            def value(module: Any = module) -> object:
                return module.value

            def called() -> object:
                return module.call()  # noqa: B023

            for number in range(1, 3):
                module.value = number  # type: ignore[attr-defined]
                assert executor.submit(value).result() == number
                exec(f"def call(): return value + {number}", module.__dict__)
                assert executor.submit(called).result() == 2 * number
    finally:
        cloudpickle.unregister_pickle_by_value(registered)


def test_a_module_that_is_registered_after_its_first_call_goes_by_value(
    make_executor: Callable[..., Executor], folder: Folder
) -> None:
    import cloudpickle

    folder.write("registered_late", "value = 1\ndef get(): return value\n")
    module = folder.load("registered_late")
    executor = make_executor(1)

    def outer() -> object:
        return module.value

    functions = (module.get, outer)
    assert [executor.submit(one).result() for one in functions] == [1, 1]
    cloudpickle.register_pickle_by_value(module)
    try:
        module.value = 2
        assert [executor.submit(one).result() for one in functions] == [2, 2]
    finally:
        cloudpickle.unregister_pickle_by_value(module)
    assert cloudpickle.list_registry_pickle_by_value() == set()
    assert [executor.submit(one).result() for one in functions] == [1, 1]


def test_a_module_that_is_registered_with_a_cloudpickle_that_is_imported_late(
    script: Script, tmp_path: Path
) -> None:
    (tmp_path / "registered_late.py").write_text("value = 1\ndef get(): return value\n")
    source = f"""
    import sys
    sys.path.insert(0, {str(tmp_path)!r})
    import gristmill, registered_late
    with gristmill.Executor(1) as executor:
        print(executor.submit(registered_late.get).result(), "cloudpickle" in sys.modules)
        import cloudpickle
        cloudpickle.register_pickle_by_value(registered_late)
        registered_late.value = 2
        print(executor.submit(registered_late.get).result())
    """
    assert script.run(source).split() == ["1", "False", "2"]


def test_the_main_module_of_a_spawned_process(script: Script) -> None:
    printed = script.run(
        """
        import multiprocessing, gristmill

        class Point:
            def __init__(self, x): self.x = x

        def scale(point): return Point(point.x * 2)

        def work(queue):
            with gristmill.Executor(1) as executor:
                result = executor.submit(scale, Point(3)).result()
                queue.put((__name__, type(result) is Point, result.x))

        if __name__ == "__main__":
            context = multiprocessing.get_context("spawn")
            queue = context.SimpleQueue()
            child = context.Process(target=work, args=(queue,))
            child.start()
            print(*queue.get())
            child.join()
        """
    )
    assert printed == "__mp_main__ True 6\n"


def test_a_new_name_of_an_installed_class_goes_by_name(shared: Executor) -> None:
    numpy = pytest.importorskip("numpy")
    array = numpy.zeros(3, [("a", "i4")]).view(numpy.recarray)
    assert shared.submit(lambda held: type(held) is numpy.recarray, array).result()
    assert shared.submit(lambda held: held[:2].a.sum(), array).result() == 0
