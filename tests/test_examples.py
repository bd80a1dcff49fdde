"""The example programs are programs that a user would write: they use only public names of Gristmill."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PROGRAMS = sorted((ROOT / "examples").rglob("*.py"))


def private_names(tree: ast.Module) -> Iterator[str]:
    """Gives the private names of Gristmill that a module imports or reads."""
    names = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names += [one.name for one in node.names]
        elif isinstance(node, ast.ImportFrom):
            names += [f"{node.module}.{one.name}" for one in node.names]
        elif isinstance(node, ast.Attribute):
            names.append(ast.unparse(node))
    for name in names:
        first, *others = name.split(".")
        private = [one for one in others if one.startswith("_") and not one.endswith("__")]
        if first in {"gristmill", "parsl"} and private:
            yield name


def test_examples_use_only_public_names() -> None:
    assert PROGRAMS
    for program in PROGRAMS:
        found = list(private_names(ast.parse(program.read_text())))
        assert not found, f"{program} uses {found}"


@pytest.mark.parametrize(
    "text",
    ["from gristmill import _page", "import gristmill._machine", "parsl.kernel._tasks.clear()"],
)
def test_the_check_can_fail(text: str) -> None:
    assert list(private_names(ast.parse(text)))
