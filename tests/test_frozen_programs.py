"""Programs whose ``sys.executable`` is the program itself: frozen ones, and those that embed Python.

Most of them are stand-ins: shell scripts that run a program with Python and count their starts.
"""

from __future__ import annotations

import dataclasses
import os
import subprocess
import sys
import textwrap
from importlib.util import find_spec
from pathlib import Path

import pytest

import gristmill
from gristmill import _pyinstaller, _starting

#: A stand-in ends at a number of starts that is higher than that of any test.
_SCRIPT = """#!/bin/sh
echo x >> {starts}
[ $(wc -l < {starts}) -gt 20 ] && exit 9
exec {python} {program} {arguments}
"""
#: The options of executors by the kind of processes that they start.
_KINDS = """
    KINDS = {
        "fork": {},
        "spawn": {"start": "spawn"},
        "nodes": {"nodes": gristmill.on.local(1)},
        "preload": {"preload": ["json"]},
    }
"""
#: The end of a program: one task of an executor whose kind is in a variable.
_TASK = (
    _KINDS
    + """
    with gristmill.Executor(1, **KINDS[os.environ["KIND"]]) as executor:
        try:
            print(executor.submit(lambda: [os.environ["KIND"], vars(sys.modules["__main__"]).get("mark")]).result())
        except gristmill.StartError as error:
            print("StartError:", error)
"""
)


@dataclasses.dataclass(frozen=True)
class Program:
    """A stand-in for a frozen program."""

    path: Path

    @property
    def starts(self) -> int:
        return len((self.path.parent / "starts").read_text().split())

    def run(self, kind: str = "fork") -> subprocess.CompletedProcess[str]:
        paths = [
            str(Path(gristmill.__file__).parents[1]),
            *filter(None, [os.environ.get("PYTHONPATH")]),
        ]
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(paths), "KIND": kind}
        return subprocess.run([self.path], capture_output=True, text=True, env=environment)


def program(folder: Path, text: str, *, is_frozen: bool = True, passes: str = '"$@"') -> Program:
    """Makes a program of this text, whose ``sys.executable`` is the program itself."""
    app, main = folder / "app", folder / "main.py"
    names = {"starts": folder / "starts", "python": sys.executable, "program": main}
    app.write_text(_SCRIPT.format(**names, arguments=passes))
    app.chmod(0o755)
    begin = f"import sys\nsys.executable = {str(app)!r}\n" + "sys.frozen = True\n" * is_frozen
    main.write_text(begin + "mark = 1\nimport os, gristmill\n" + textwrap.dedent(text))
    return Program(app)


@pytest.mark.parametrize("kind", ["fork", "spawn", "nodes"])
def test_a_frozen_program_without_freeze_support_is_refused_before_it_starts_anything(
    kind: str, tmp_path: Path
) -> None:
    app = program(tmp_path, _TASK)
    done = app.run(kind)
    assert "StartError" in done.stdout + done.stderr
    assert "gristmill.freeze_support()" in done.stdout + done.stderr
    assert app.starts == 1


@pytest.mark.parametrize("kind", ["fork", "spawn", "nodes", "preload"])
def test_a_frozen_program_that_calls_freeze_support_runs_tasks(kind: str, tmp_path: Path) -> None:
    app = program(tmp_path, "gristmill.freeze_support()\n" + textwrap.dedent(_TASK))
    done = app.run(kind)
    assert done.stdout == f"['{kind}', None]\n", done.stderr
    assert app.starts <= 3  # itself; workers or their zygote; the agent


def test_calls_that_each_set_up_their_context_run_in_a_frozen_program(tmp_path: Path) -> None:
    text = """
        import gristmill
        from gristmill._context.declare import with_reuse

        def setup():
            pass

        def call():
            return 3

        gristmill.freeze_support()
        context = with_reuse(gristmill.Context(setup, name="model"), "none")
        with gristmill.Executor(1) as executor:
            print(executor.options(context=context).submit(call).result())
    """
    done = program(tmp_path, text).run()
    assert done.stdout == "3\n", done.stderr


@pytest.mark.parametrize("kind", ["fork", "spawn", "nodes"])
@pytest.mark.parametrize(
    ("freezes", "passes"),
    [(False, '"$@"'), (False, ""), (True, "")],
    ids=["embeds", "embeds-no-arguments", "frozen-no-arguments"],
)
def test_a_program_that_is_started_in_place_of_an_interpreter_ends_with_a_start_error(
    kind: str, freezes: bool, passes: str, tmp_path: Path
) -> None:
    text = "gristmill.freeze_support()\n" * freezes + textwrap.dedent(_TASK)
    app = program(tmp_path, text, is_frozen=freezes, passes=passes)
    done = app.run(kind)
    assert "a start within a start" in done.stdout, done.stderr
    assert app.starts <= 8  # a spawned worker is tried five times


def test_a_program_run_by_an_option_of_python_ends_with_a_start_error_too(tmp_path: Path) -> None:
    text = "import sys, gristmill; sys.executable = sys.argv[1]; print(gristmill.Executor(1).submit(abs, 1).result())"
    app = program(tmp_path, "")
    app.path.write_text(
        f"#!/bin/sh\necho x >> {tmp_path / 'starts'}\nexec {sys.executable} -c '{text}' {app.path}\n"
    )
    assert "a start within a start" in app.run().stderr
    assert app.starts == 2


def test_an_executor_made_while_an_interpreter_starts_is_refused(tmp_path: Path) -> None:
    (tmp_path / "sitecustomize.py").write_text(
        "import gristmill\n"
        "try:\n    executor = gristmill.Executor(1)\n    executor.submit(abs, 1).result()\n"
        "except gristmill.StartError as error:\n    print(str(error)[:22], flush=True)\n"
    )
    paths = [str(tmp_path), str(Path(gristmill.__file__).parents[1])]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(paths)}
    done = subprocess.run(
        [sys.executable, "-c", ""], capture_output=True, text=True, env=environment
    )
    assert done.stdout == "a start within a start\n", done.stderr


def test_a_frozen_program_can_name_an_interpreter(tmp_path: Path) -> None:
    text = f"sys.executable = {sys.executable!r}\n" + textwrap.dedent(_TASK)
    app = program(tmp_path, text)
    done = app.run("fork")
    assert done.stdout == "['fork', None]\n", done.stderr
    assert app.starts == 1


def test_a_frozen_program_is_told_that_other_nodes_need_an_interpreter(tmp_path: Path) -> None:
    text = """
        gristmill.freeze_support()
        executor = gristmill.Executor(nodes=gristmill.on.ssh(["nowhere"], shell=["false"]))
        executor.submit(abs, 1)
    """
    app = program(tmp_path, text)
    assert "StartError: this program is frozen" in app.run().stderr
    assert app.starts == 1


def test_freeze_support_does_nothing_in_other_programs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "argv", ["program", _starting.ARGUMENT, "gristmill._zygote"])
    gristmill.freeze_support()
    assert sys.argv[1:] == [_starting.ARGUMENT, "gristmill._zygote"]


@pytest.mark.long
@pytest.mark.skipif(find_spec("PyInstaller") is None, reason="pip install pyinstaller")
def test_a_program_that_pyinstaller_has_put_into_one_file_runs_tasks(tmp_path: Path) -> None:
    (tmp_path / "helper.py").write_text("def double(number):\n    return 2 * number\n")
    text = textwrap.dedent("""
        import sys
        import helper
        import gristmill

        def more(number):
            return helper.double(number) + 1

        if __name__ == "__main__":
            gristmill.freeze_support()
            for options in {}, {"start": "spawn"}, {"nodes": gristmill.on.local(1)}:
                with gristmill.Executor(1, **options) as executor:
                    print(*[executor.submit(one, 4).result() for one in (abs, helper.double, more)])
    """)
    (tmp_path / "app.py").write_text(text)
    (hooks,) = _pyinstaller.hook_folders()
    command = [sys.executable, "-m", "PyInstaller", "--onefile", "--additional-hooks-dir", hooks]
    command += ["--paths", str(Path(gristmill.__file__).parents[1]), "app.py"]
    made = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    assert made.returncode == 0, made.stderr
    done = subprocess.run([tmp_path / "dist" / "app"], capture_output=True, text=True)
    assert done.stdout == "4 8 9\n" * 3, done.stderr
