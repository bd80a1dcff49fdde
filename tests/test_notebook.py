"""Functions and classes of a notebook's cells: they are sent by value, and workers get the new version of a cell that
runs again.
"""

from __future__ import annotations

import importlib.util

import pytest

from stage import Script

pytestmark = pytest.mark.skipif(
    importlib.util.find_spec("IPython") is None, reason="IPython is not installed"
)

#: A program that runs each argument as a cell of a notebook with the namespace of ``__main__``; a cell that raises ends
#: it.
NOTEBOOK = """
    import sys
    from IPython.core.interactiveshell import InteractiveShell

    shell = InteractiveShell.instance(user_module=sys.modules["__main__"])
    shell.history_manager.enabled = False
    for cell in sys.argv[1:]:
        shell.run_cell(cell, store_history=True).raise_error()
"""
MAKE = "import gristmill; executor = gristmill.Executor(1)"
END = "executor.shutdown()"


@pytest.fixture
def run(script: Script, tmp_path: object) -> object:
    def run(*cells: str) -> list[str]:
        printed = script.run(NOTEBOOK, MAKE, *cells, END, env={"IPYTHONDIR": str(tmp_path)})
        return printed.splitlines()

    return run


def test_functions_of_cells_and_cells_that_are_run_again(run) -> None:  # type: ignore[no-untyped-def]
    assert run(
        "import math\nscale = 2",
        "def area(radius):\n    return scale * math.floor(radius)",
        "def twice(radius):\n    return 2 * area(radius)",
        "print(executor.submit(twice, 3.5).result(), list(executor.map(area, [1, 2])))",
        "print(executor.submit(lambda: area(10)).result())",
        "def inner():\n    return 'old'",
        "def outer():\n    return inner()",
        "print(executor.submit(outer).result(), executor.submit(inner).result())",
        "def inner():\n    return 'new'",
        "print(executor.submit(outer).result(), executor.submit(inner).result())",
        "word = 'first'\ndef say():\n    return word",
        "print(executor.submit(say).result())",
        "word = 'second'",
        "print(executor.submit(say).result())",
    ) == ["12 [2, 4]", "20", "old old", "new new", "first", "second"]


def test_classes_and_exceptions_of_cells(run) -> None:  # type: ignore[no-untyped-def]
    assert run(
        "class Point:\n"
        "    def __init__(self, x):\n        self.x = x\n"
        "    def moved(self, by):\n        return Point(self.x + by)",
        "point = executor.submit(Point(1).moved, 2).result()",
        "print(point.x, isinstance(point, Point), type(point) is Point)",
        "print(executor.submit(isinstance, point, Point).result())",
        "class Point:\n"
        "    def __init__(self, x):\n        self.x = 100 * x\n"
        "    def moved(self, by):\n        return Point(self.x + by)",
        "print(executor.submit(Point(1).moved, 2).result().x, executor.submit(Point, 1).result().x)",
        "class Own(Exception):\n    pass",
        "def fail():\n    raise Own('from a cell')",
        "error = executor.submit(fail).exception()",
        "print(type(error) is Own, error, 'in fail' in str(error.__cause__))",
    ) == ["3 True True", "True", "10200 100", "True from a cell True"]
