"""Tasks resolve annotations that are strings, as ``typing.get_type_hints`` does for functions and classes by value."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.interpreter


def lines_of(folder: Path, program: str) -> list[str]:
    """Returns what a program prints."""
    path = folder / "program.py"
    path.write_text(program)
    done = subprocess.run([sys.executable, path], capture_output=True, text=True, check=True)
    return done.stdout.splitlines()


def test_an_annotation_that_cannot_be_sent_keeps_no_function_and_no_argument_from_tasks(
    tmp_path: Path,
) -> None:
    program = """
from __future__ import annotations
import threading, typing
import numpy
import gristmill

class Locked:
    lock = threading.Lock()

class Row:
    values: numpy.ndarray
    owner: Locked

def double(value: int, locked: Locked | None = None) -> int:
    return 2 * value

with gristmill.Executor(1) as executor:
    print(executor.submit(double, 2).result())
    row = Row()
    row.values = numpy.arange(100_000)
    print(executor.submit(lambda row: int(row.values.sum()), row).result())
    print(executor.submit(lambda: executor.submit(double, 3).result()).result())
"""
    assert lines_of(tmp_path, program) == ["4", "4999950000", "6"]


def test_a_module_that_only_an_annotation_names_is_not_imported_in_workers(tmp_path: Path) -> None:
    (tmp_path / "heavy.py").write_text("class Table: ...")
    program = """
from __future__ import annotations
import sys
import heavy
from heavy import Table
import gristmill

def look(a: heavy.Table, b: list[Table] | None = None, c: Table | None = None) -> bool:
    return "heavy" in sys.modules

class Row:
    table: Table

with gristmill.Executor(1) as executor:
    print(executor.submit(look, None).result())
    print(executor.submit(lambda row: "heavy" in sys.modules, Row()).result())
"""
    assert lines_of(tmp_path, program) == ["False", "False"]


def test_a_hint_is_the_newest_object_of_its_name(tmp_path: Path) -> None:
    program = """
import typing
import gristmill

class Node:
    next: "Part"

class Part:
    version = 1

def version():
    return typing.get_type_hints(Node)["next"].version

with gristmill.Executor(1) as executor:
    print(executor.submit(version).result())

    class Part:
        version = 2

    print(executor.submit(version).result())
    import __main__
    print("Part" in vars(__main__), version())
"""
    assert lines_of(tmp_path, program) == ["1", "2", "True 2"]


def test_a_task_of_a_task_resolves_the_annotations_too(tmp_path: Path) -> None:
    program = """
from __future__ import annotations
import typing
import gristmill

class Node:
    next: Part

class Part:
    version = 1

def version() -> int:
    return typing.get_type_hints(Node)["next"].version

def outer() -> int:
    return gristmill.current_executor().submit(version).result()

with gristmill.Executor(2) as executor:
    print(executor.options().submit(outer).result())
"""
    assert lines_of(tmp_path, program) == ["1"]
