"""An observed run reports the imports and the files that the program's processes really used."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from gristmill._context import observed
from gristmill._context.observed import Observed

from installations import write

pytestmark = pytest.mark.interpreter


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Returns the working directory, which is the test's own."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


def run(folder: Path, program: str, *arguments: str, data: tuple[str, ...] = ()) -> Observed:
    write(folder, {"program.py": program})
    return observed.of_program("program.py", arguments, data)


def read(seen: Observed, folder: Path) -> dict[str, int]:
    return {str(Path(one.path).relative_to(folder)): one.size for one in seen.inputs}


def test_files_that_are_read_are_inputs_and_those_that_are_written_first_are_not(
    folder: Path,
) -> None:
    write(folder, {"in.txt": "12345", "deep/table.csv": "1,2", "both.txt": "1", "old.txt": "1"})
    seen = run(
        folder,
        """
import os, pathlib
open("in.txt").read()
os.chdir("deep")
pathlib.Path("table.csv").read_bytes()
os.chdir("..")
with open("out.txt", "w") as file:
    file.write("text")
open("out.txt").read()
with open("part.txt", "w") as file:
    file.write("text")
os.replace("part.txt", "whole.txt")
open("whole.txt").read()
with open("both.txt", "r+") as file:
    file.write("2")
open("old.txt", "a").close()
open(os.devnull).close()
os.close(os.open(b"in.txt", os.O_RDONLY))
try:
    open("gone.txt")
except OSError:
    pass
""",
    )
    assert read(seen, folder) == {"in.txt": 5, "deep/table.csv": 3, "both.txt": 1}
    assert seen.status == 0


def test_only_named_folders_and_the_working_directory_hold_data(
    folder: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    other = tmp_path_factory.mktemp("other")
    write(other, {"data.txt": "123"})
    program = "import sys\nopen(sys.argv[1]).read()"
    assert run(folder, program, str(other / "data.txt")).inputs == ()
    (found,) = run(folder, program, str(other / "data.txt"), data=(str(other),)).inputs
    assert found == observed.Input(str(other / "data.txt"), 3)


def test_modules_are_seen_however_they_are_imported(folder: Path) -> None:
    write(folder, {"one.py": "", "two/__init__.py": "", "two/three.py": "", "four.py": ""})
    seen = run(
        folder,
        """
import importlib
name = "one"
importlib.import_module(name)
__import__("two." + "three")
exec("import four")
try:
    import nowhere
except ImportError:
    pass
""",
    )
    assert {"one", "two", "two.three", "four", "nowhere"} <= set(seen.modules)
    assert seen.inputs == ()


def test_the_program_runs_as_it_always_does(
    folder: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    seen = run(
        folder,
        """
import sys
print(__name__, sys.argv, sys.path[0] == sys.argv[1], [entry for entry in sys.path if "observing" in entry])
sys.exit(3)
""",
        str(folder),
        "--json",
    )
    printed = capfd.readouterr()
    assert seen.status == 3
    # Standard output is reserved for the command's result.
    assert printed.out == ""
    assert printed.err == f"__main__ ['program.py', {str(folder)!r}, '--json'] True []\n"


def test_a_sitecustomize_of_the_users_runs_too(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    write(folder, {"own/sitecustomize.py": "import json\nprint('customized')"})
    monkeypatch.setenv("PYTHONPATH", str(folder / "own"))
    run(folder, "import sitecustomize\nprint(sitecustomize.json.__name__)")
    assert capfd.readouterr().err == "customized\njson\n"


def test_processes_that_the_program_starts_are_seen(folder: Path) -> None:
    write(folder, {"a.txt": "1", "b.txt": "2", "c.txt": "3", "of_child.py": "", "of_fork.py": ""})
    seen = run(
        folder,
        """
import os, subprocess, sys
subprocess.run([sys.executable, "-c", "import of_child; open('a.txt')"], check=True)
child = os.fork()
if child == 0:
    import of_fork
    open("b.txt")
    os.kill(os.getpid(), 9)
os.waitpid(child, 0)
open("c.txt")
""",
    )
    assert list(read(seen, folder)) == ["a.txt", "b.txt", "c.txt"]
    assert {"of_child", "of_fork"} <= set(seen.modules)


def test_what_tasks_import_and_read_is_seen(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", ":".join(entry for entry in sys.path if entry))
    write(folder, {"model.txt": "12", "of_task.py": ""})
    seen = run(
        folder,
        """
import gristmill
def task():
    import of_task
    return open("model.txt").read()
with gristmill.Executor(1) as executor:
    executor.submit(task).result()
""",
    )
    assert seen.status == 0
    assert read(seen, folder) == {"model.txt": 2}
    assert "of_task" in seen.modules


def test_one_call_of_a_function_can_be_observed(folder: Path) -> None:
    write(folder, {"in.txt": "12"})

    def call(name: str) -> None:
        import wave

        with open(name) as file:
            assert file.read(), wave

    seen = observed.of_call(call, ["in.txt"])
    assert seen.status == 0
    assert read(seen, folder) == {"in.txt": 2}
    assert "wave" in seen.modules


def test_a_call_is_observed_of_a_function_whose_class_only_our_pickles_carry(folder: Path) -> None:
    write(folder, {"in.txt": "12"})

    class Marked(property):
        pass

    class Table:
        @Marked
        def text(self) -> str:
            return Path("in.txt").read_text()

    seen = observed.of_call(lambda: print(Table().text))
    assert seen.status == 0
    assert read(seen, folder) == {"in.txt": 2}


def test_a_program_that_dies_has_its_signal_told(folder: Path) -> None:
    seen = run(folder, "import os, wave\nos.kill(os.getpid(), 9)")
    assert seen.status == -9
    assert "wave" in seen.modules
