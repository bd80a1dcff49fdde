"""The language of Python docstrings, comments, messages and names; ``crates/tidy`` checks that of Rust code and pages."""

from __future__ import annotations

import ast
import io
import re
import subprocess
import tokenize
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
#: First words that paraphrase instead of naming the thing or the action.
OPENING = re.compile(
    r"(Anybody|How|Nobody|Somebody|What|When|Where|Whether|Which|Who|Whoever|Whom|Whose|Why)\b"
)
#: Pronouns that hide the actor, and phrases that a native reader has to read twice.
BANNED = re.compile(
    r"\b(anybody|anyone|somebody|someone|nobody|whoever|whomever|what of that|be it|is to be|are to be|as far as"
    r"|at the most|for want of)\b",
    re.IGNORECASE,
)
#: The first word of the docstring of a function: a verb in the third person.
VERB = re.compile(r"[A-Z][a-z-]*s\b")
#: Folders of this language; pages are read by people and change with what they describe.
FOLDERS = (
    "python",
    "packages",
    "examples",
    "tests",
    "benches",
    "cluster",
    "conformance",
    "scripts",
)

Documented = ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef


def files() -> list[Path]:
    listed = subprocess.run(
        # Those that git does not know yet, too: they are in the next commit.
        [
            "git",
            "ls-files",
            "-co",
            "--exclude-standard",
            "--",
            *(f"{folder}/*.py" for folder in FOLDERS),
        ],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    found = [ROOT / name for name in listed.stdout.splitlines() if name != "tests/test_language.py"]
    return [path for path in found if path.exists()]


def is_property(node: Documented) -> bool:
    return any("property" in ast.unparse(one) for one in getattr(node, "decorator_list", ()))


def docstrings(tree: ast.Module) -> Iterator[tuple[Documented, int, str]]:
    """Gives each documented part of a module with its line and its text."""
    for node in ast.walk(tree):
        if isinstance(node, Documented) and (text := ast.get_docstring(node)):
            yield node, node.body[0].lineno, text


def faults_of_docstrings(path: Path, text: str) -> Iterator[str]:
    is_test = path.is_relative_to(ROOT / "tests")
    for node, line, doc in docstrings(ast.parse(text)):
        first = doc.splitlines()[0]
        is_function = isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        if OPENING.match(first):
            yield f"{path}:{line} opens with {first.split()[0]}: {first}"
        elif is_function and not (is_test or is_property(node) or VERB.match(first)):
            yield f"{path}:{line} begins with no verb in the third person: {first}"
        if found := BANNED.search(doc):
            yield f"{path}:{line} says {found[0]!r}"


def faults_of_messages(path: Path, text: str) -> Iterator[str]:
    """Checks string literals with a space that are no docstrings, and names of functions and classes."""
    # Most files contain none of the phrases at all, and need no second look at their syntax tree.
    if not BANNED.search(re.sub(r"[^A-Za-z]+", " ", text)):
        return
    tree = ast.parse(text)
    statements = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            words = node.name.replace("_", " ")
        elif isinstance(node, ast.Constant) and id(node) not in statements:
            words = node.value if isinstance(node.value, str) and " " in node.value else ""
        else:
            continue
        if found := BANNED.search(words):
            yield f"{path}:{node.lineno} says {found[0]!r}: {words}"


def faults_of_comments(path: Path, text: str) -> Iterator[str]:
    lines = text.splitlines()
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type != tokenize.COMMENT:
            continue
        line = token.start[0]
        words = token.string.lstrip("#:! ")
        if found := BANNED.search(words):
            yield f"{path}:{line} says {found[0]!r}"
        is_first = not lines[line - 2].strip().startswith("#:")
        if token.string.startswith("#:") and is_first and OPENING.match(words):
            yield f"{path}:{line} opens with {words.split()[0]}: {words}"


def faults(path: Path, text: str) -> Iterator[str]:
    yield from faults_of_docstrings(path, text)
    yield from faults_of_messages(path, text)
    yield from faults_of_comments(path, text)


def test_docstrings_messages_and_comments_are_plain() -> None:
    found = [fault for path in files() for fault in faults(path, path.read_text())]
    assert not found, "\n".join(found)


@pytest.mark.parametrize(
    "text",
    [
        '"""Whether it is."""',
        'def f():\n    """The value."""',
        '"""Tells whoever asks."""',
        "#: What is there.\nvalue = 1",
        "value = 1  # nobody reads it",
        'raise ValueError("somebody has the lock")',
        'raise ValueError(f"{path} waits for whoever reads it")',
        "def test_nobody_waits() -> None: ...",
    ],
)
def test_the_check_can_fail(text: str) -> None:
    path = ROOT / "python" / "module.py"
    assert list(faults(path, text + "\n"))
