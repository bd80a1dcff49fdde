"""Folders from which the interpreters that Gristmill starts import modules before they run code of the program."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

import gristmill
from gristmill import _starting

from stage import Script

#: The folder that contains the package.
PACKAGES = str(Path(gristmill.__file__).parents[1])
#: A program that runs one task with the kind of executor that its argument names, and prints the result.
TASK = """
    import os, sys
    import gristmill
    from gristmill._context.declare import with_reuse

    def setup():
        pass

    def call():
        return 8

    kind = sys.argv[1]
    options = {}
    if kind == "spawn":
        options["start"] = "spawn"
    if kind == "nodes":
        options["nodes"] = gristmill.on.local(1)
    if kind == "ssh":
        options["nodes"] = gristmill.on.ssh(["one"], workers=1, shell=[sys.argv[2]])
    with gristmill.Executor(1, **options) as executor:
        if kind == "context":
            context = with_reuse(gristmill.Context(setup, name="model"), "none")
            print(executor.options(context=context).submit(call).result(), flush=True)
        else:
            print(executor.submit(pow, 2, 3).result(), flush=True)
"""
#: A program called as ``ssh`` is, which runs everything on this machine in a folder.
SHELL = """#!/bin/sh
while [ "$1" != -- ]; do shift; done
shift 2
cd {folder}
exec sh -c "$*"
"""


@pytest.fixture
def hostile(tmp_path: Path) -> Path:
    """Returns a folder with a file for each module of the standard library. The file notes that it was run."""
    folder = tmp_path / "hostile"
    folder.mkdir()
    for name in sys.stdlib_module_names | {"readline", "gristmill", "cloudpickle", "sitecustomize"}:
        text = f"open({str(tmp_path / 'run')!r}, 'a').write('{name} ')\nraise ImportError('the wrong {name}')\n"
        (folder / f"{name}.py").write_text(text)
    return folder


def run_in(hostile: Path) -> str:
    """Returns the names of the modules of the folder that were run."""
    note = hostile.parent / "run"
    return note.read_text() if note.exists() else ""


@pytest.mark.interpreter
@pytest.mark.parametrize("kind", ["fork", "spawn", "nodes", "ssh", "context"])
def test_no_module_of_the_working_directory_is_run_for_a_program_elsewhere(
    kind: str, script: Script, hostile: Path, tmp_path: Path
) -> None:
    shell = tmp_path / "ssh"
    shell.write_text(SHELL.format(folder=hostile))
    shell.chmod(0o755)
    assert script.run(TASK, kind, str(shell), cwd=hostile) == "8\n"
    assert run_in(hostile) == ""


@pytest.mark.parametrize("path", ["{0}:", ":{0}", ".:{0}", "{0}:hostile"])
@pytest.mark.parametrize("kind", ["fork", "nodes", "context"])
def test_a_relative_entry_of_pythonpath_does_not_follow_the_working_directory(
    path: str, kind: str, tmp_path: Path, hostile: Path
) -> None:
    start = tmp_path / "start"
    (start / "hostile").mkdir(parents=True)
    (tmp_path / "hostile" / "hostile").symlink_to(hostile)
    text = TASK.replace("kind = ", f"os.chdir({str(hostile)!r})\n    kind = ")
    tests = str(Path(__file__).parent)
    environment = {**os.environ, "PYTHONPATH": path.format(f"{PACKAGES}:{tests}")}
    program = tmp_path / "program.py"
    program.write_text("if True:" + text)
    done = subprocess.run(
        [sys.executable, program, kind], cwd=start, env=environment, capture_output=True, text=True
    )
    assert done.stdout == "8\n", done.stderr
    assert run_in(hostile) == ""


@pytest.mark.parametrize("kind", ["fork", "nodes"])
def test_tasks_have_the_pythonpath_of_the_program(kind: str, tmp_path: Path) -> None:
    text = (
        "import os, gristmill, sys; os.chdir('/'); "
        "options = {'nodes': gristmill.on.local(1)} if sys.argv[1] == 'nodes' else {}; "
        "executor = gristmill.Executor(1, **options); "
        "print(executor.submit(os.getenv, 'PYTHONPATH').result(), executor.submit(os.getenv, 'GRISTMILL_START').result()); "
        "executor.shutdown()"
    )
    environment = {**os.environ, "PYTHONPATH": f".:{PACKAGES}:"}
    done = subprocess.run(
        [sys.executable, "-c", text, kind],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
    )
    assert done.stdout == f".:{PACKAGES}: None\n", done.stderr


def test_modules_beside_the_package_do_not_replace_those_of_the_standard_library(
    script: Script, hostile: Path
) -> None:
    (hostile / "gristmill.py").unlink()
    (hostile / "gristmill").symlink_to(Path(PACKAGES) / "gristmill")
    text = f"""
        import sys, __future__
        sys.path.insert(0, {str(hostile)!r})
        import gristmill
        del sys.path[0]
        print(gristmill.__file__.startswith({str(hostile)!r}))
        with gristmill.Executor(1) as executor:
            print(executor.submit(pow, 2, 3).result())
    """
    assert script.run(text) == "True\n8\n"
    assert run_in(hostile) == ""


def test_a_program_of_the_command_line_has_the_working_directory_at_the_same_place(
    tmp_path: Path,
) -> None:
    (tmp_path / "here.py").write_text("def name():\n    return __name__\n")
    text = (
        "import os, sys, gristmill, here\n"
        "def paths():\n    import sys\n    return sys.path\n"
        "with gristmill.Executor(1) as executor:\n"
        "    print(executor.submit(here.name).result())\n"
        "    print(executor.submit(paths).result() == [os.path.abspath(one) for one in sys.path])\n"
    )
    environment = {**os.environ, "PYTHONPATH": PACKAGES}
    done = subprocess.run(
        [sys.executable, "-c", text], cwd=tmp_path, env=environment, capture_output=True, text=True
    )
    assert done.stdout == "here\nTrue\n", done.stderr


@pytest.mark.parametrize("kind", ["fork", "nodes"])
@pytest.mark.parametrize("flags", [[], ["-P"], ["-O"]], ids=["none", "safe", "optimized"])
def test_workers_have_the_flags_of_the_program(kind: str, flags: list[str]) -> None:
    text = (
        "import sys, gristmill; "
        "options = {'nodes': gristmill.on.local(1)} if sys.argv[1] == 'nodes' else {}; "
        "executor = gristmill.Executor(1, **options); "
        "print(executor.submit(lambda: (sys.flags.safe_path, sys.flags.optimize)).result()); "
        "executor.shutdown()"
    )
    environment = {**os.environ, "PYTHONPATH": PACKAGES}
    done = subprocess.run(
        [sys.executable, *flags, "-c", text, kind], env=environment, capture_output=True, text=True
    )
    assert done.stdout == f"({'-P' in flags}, {int('-O' in flags)})\n", done.stderr


@pytest.mark.parametrize(
    "text",
    [
        "from gristmill import instruments\n"
        "import subprocess\n"
        "words = instruments.bounded_command('0', os.devnull, '', 'true')\n"
        "print(subprocess.run(words).returncode)",
        "from gristmill._profile.collector import compare\n"
        "print(compare([sys.argv[1]], 1).collecting.samples - 1)",
        "from gristmill._context.observed import of_call\nprint(of_call(print).status)",
        "from gristmill import instruments\n"
        "import subprocess\n"
        "print(subprocess.run(instruments.own_command('--version'), stdout=2).returncode)",
    ],
    ids=["bounded", "compared", "observed", "command"],
)
def test_no_module_of_the_working_directory_is_run_for_a_tool(
    text: str, script: Script, hostile: Path, tmp_path: Path
) -> None:
    program = tmp_path / "program" / "main.py"
    program.parent.mkdir()
    program.write_text(f"import sys\nassert sys.path[0] == {str(program.parent)!r}, sys.path\n")
    assert script.run("import os, sys\n" + text, str(program), cwd=hostile) == "0\n"
    assert run_in(hostile) == ""


def test_a_folder_that_is_gone_is_no_entry_of_the_search_path(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    gone = tmp_path / "gone"
    gone.mkdir()
    monkeypatch.chdir(gone)
    gone.rmdir()
    monkeypatch.setenv("PYTHONPATH", "/whole:relative:")
    found = _starting.variables()
    monkeypatch.chdir(tmp_path)
    assert found == {"GRISTMILL_START": "/whole:relative:", "PYTHONPATH": "/whole"}
