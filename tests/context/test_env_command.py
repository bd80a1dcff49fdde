"""``gristmill env show`` lists what a program needs, why, and what was not found."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from installations import install, write

PROGRAM = """\
import sys, tables
from shapes import square
if sys.argv[1:]:
    import late
    open(sys.argv[1]).read()
def area(x):
    return square.area(x)
def rows():
    return tables.rows()
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Returns a folder with a program, its package, and the distributions that it needs."""
    site = tmp_path / "site-packages"
    install(site, "Fast-Tables", "2.5", {"tables/__init__.py": "rows = list"}, requires=["columns"])
    install(site, "columns", "1.0", {"columns.py": "x = 1\n" * 1000}, installer="uv")
    install(site, "late-one", "0.1", {"late.py": "import plugin"})
    install(site, "plugin", "0.2", {"plugin.py": ""})
    files = {
        "shapes/__init__.py": "",
        "shapes/square.py": "from .sides import *\ntry:\n    import faster\nexcept ImportError:\n    pass\n",
    }
    write(tmp_path, {"program.py": PROGRAM, "shapes/sides.py": "", **files, "in.txt": "12345"})
    return tmp_path


def show(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    path = [str(folder / "site-packages"), *filter(None, [os.environ.get("PYTHONPATH")])]
    return subprocess.run(
        [sys.executable, "-m", "gristmill._cli", "env", "show", *arguments],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(path)},
        capture_output=True,
        text=True,
    )


def line(shown: subprocess.CompletedProcess[str], begin: str) -> list[str]:
    """Returns the words of the last line with this beginning."""
    found = [one for one in shown.stdout.splitlines() if one.startswith(begin)]
    assert found, shown.stdout + shown.stderr
    return found[-1].split()


def test_everything_that_is_needed_is_shown_with_its_reason(folder: Path) -> None:
    shown = show(folder, "program.py")
    assert (shown.returncode, shown.stderr) == (0, "")
    assert max(map(len, shown.stdout.splitlines())) <= 100
    imported = [one for one in shown.stdout.splitlines() if one.startswith("tables")]
    assert imported[0].split() == [
        "tables",
        *["line", "1", "of", "program.py"],
        "Fast-Tables",
        "2.5",
    ]
    columns = line(shown, "columns")
    assert columns[:3] == ["columns", "1.0", "4"]
    assert columns[-3:] == ["uv", "for", "Fast-Tables"]
    assert line(shown, "faster")[-3:] == ["not", "here,", "optional"]
    assert line(shown, "program.py")[3:] == ["by", "value", "the", "program"]
    assert line(shown, "shapes/sides.py")[3:] == [
        "as",
        "a",
        "file",
        "line",
        "1",
        "of",
        "shapes/square.py",
    ]
    assert line(shown, "3 distributions")[2] == "12"
    assert line(shown, "environment:")[1] in ("venv", "uv", "virtualenv", "conda", "system")


def test_one_function_needs_less(folder: Path) -> None:
    found = json.loads(show(folder, "program.py", "--function", "area", "--json").stdout)
    assert found["distributions"] == []
    assert [Path(file["path"]).name for file in found["files"]] == [
        "program.py",
        "__init__.py",
        "square.py",
        "sides.py",
    ]
    found = json.loads(show(folder, "program.py", "--json", "--function", "rows").stdout)
    assert [one["name"] for one in found["distributions"]] == ["columns", "Fast-Tables"]


def test_what_was_not_found_ends_it_with_1_and_says_what_to_do(folder: Path) -> None:
    write(folder, {"program.py": "import gone, tables\n", "site-packages/loose.py": ""})
    shown = show(folder, "program.py")
    assert shown.returncode == 1
    assert (
        "not found (import): gone, line 1 of program.py: not on sys.path: install" in shown.stdout
    )
    assert "1 of the needed modules or files were not found" in shown.stderr
    found = json.loads(show(folder, "program.py", "--json").stdout)
    assert [(one["step"], one["name"]) for one in found["missing"]] == [("import", "gone")]


def test_a_requirement_that_is_not_installed_is_a_note(folder: Path) -> None:
    install(folder / "site-packages", "columns", "1.0", {"columns.py": ""}, requires=["rows>=2"])
    shown = show(folder, "program.py")
    assert shown.returncode == 0
    assert "note: columns requires rows>=2, which is not installed" in shown.stdout


def test_an_observed_run_adds_what_only_it_can_tell(folder: Path) -> None:
    write(folder, {"site-packages/late.py": "__import__('importlib').import_module('plug' + 'in')"})
    shown = show(folder, "program.py", "--run", "--", "in.txt")
    assert shown.returncode == 0, shown.stderr
    assert line(shown, "in.txt") == ["in.txt", "5", "B"]
    assert line(shown, "plugin")[-2:] == ["pip", "imported"]
    assert "imported in the observed run" in shown.stdout
    assert "plugin" not in show(folder, "program.py").stdout


def test_a_run_that_fails_ends_it_with_1(folder: Path) -> None:
    shown = show(folder, "--run", "program.py", "--", "gone.txt")
    assert shown.returncode == 1
    assert "the observed run ended with status 1" in shown.stdout
    assert "FileNotFoundError" in shown.stderr


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["nothing.py"], "nothing.py cannot be read"),
        (["in.txt", "--function", "f"], "it defines no function"),
        (["program.py", "--function", "nothing"], "no function nothing: it defines area, rows"),
        (["broken.py"], "broken.py cannot be read"),
        (["program.py", "--", "in.txt"], "are for --run"),
    ],
)
def test_what_cannot_be_looked_at_is_refused(
    folder: Path, arguments: list[str], words: str
) -> None:
    write(folder, {"broken.py": "def"})
    shown = show(folder, *arguments)
    assert shown.returncode == 2
    assert words in shown.stderr
    assert shown.stdout == ""


def test_nothing_of_it_is_loaded_before_it_is_used() -> None:
    program = (
        "import sys, gristmill._cli; "
        "print('gristmill._context.discovery' in sys.modules, 'packaging' in sys.modules)"
    )
    run = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert run.stdout == "False False\n"
