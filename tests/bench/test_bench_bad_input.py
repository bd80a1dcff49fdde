"""Bad input is refused in one line, and a run that fails says in one line why."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest
from plugged import install

from gristmill._cli import main
from gristmill_bench import BenchError, plugins, resolve, run
from gristmill_bench.faults import notes

#: Applications of a third party.
THEIRS = """
import sys

from gristmill_bench import App


class Raises(App):
    def run(self, engine, folder):
        raise RuntimeError("of two\\nlines\\n")

    def check(self, result):
        return ""


class Leaves(Raises):
    def run(self, engine, folder):
        sys.exit(0)


class Counts(Raises):
    def run(self, engine, folder):
        return engine.submit(abs, -1).result()

    def figures(self, result):
        return {"found_s": "nothing"}


class Half(App):
    def run(self, engine, folder):
        return 1


class Synthetic(Raises):
    pass
"""
CLASSES = ("Raises", "Leaves", "Counts", "Half", "Synthetic")


@pytest.fixture
def theirs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Installs the third-party applications, for this process and for runs."""
    install(tmp_path, monkeypatch, "theirs", THEIRS, CLASSES)


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["--run.timeout", "inf"], "run.timeout: "),
        (["--run.timeout", "1e300"], "run.timeout: "),
        (["--run.environment", '{"A=B": "1"}'], "no variable can be 'A=B'"),
        (["--run.environment", '{"A": "\\u0000"}'], "no variable can be 'A'"),
        (["--run.folder", os.fsdecode(b"/tmp/\xff")], "is not UTF-8"),
        (["--executor.spin_seconds", "-5"], "executor.spin_seconds: "),
        (["--executor.spin_seconds", "nan"], "executor.spin_seconds: "),
        (["--executor.loss_retries", "99999999"], "executor.loss_retries: "),
        (["--records.file", "config.toml"], "config.toml is a file of the run itself"),
        (["--app", "half"], "app 'half', from theirs:Half of theirs, lacks check"),
        (["--app", "synthetic"], "both are app 'synthetic': uninstall one of them"),
        (["--app", "raises"], "RuntimeError: of two lines"),
        (["--app", "leaves"], "ended before it had measured anything"),
        (["--app", "counts"], "the figure found_s of counts is no number: 'nothing'"),
    ],
)
def test_what_is_wrong_is_said_in_a_line(
    words: list[str],
    says: str,
    theirs: None,
    tmp_path: Path,
    capfd: pytest.CaptureFixture[str],
) -> None:
    where = [] if "--run.folder" in words else ["--run.folder", str(tmp_path / "runs")]
    app = [] if "--app" in words else ["--app", "fib"]
    assert main(["bench", "run", *app, *where, *words]) == 2
    (line,) = capfd.readouterr().err.splitlines()
    assert says in line


def test_a_name_that_two_have_does_not_hide_the_others(
    theirs: None, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["bench", "list"]) == 0
    said = capsys.readouterr().out
    assert "uninstall one of them" in said
    assert "cholesky" in said


def test_tables_that_are_none_are_refused() -> None:
    tables: dict[str, dict[str, object]] = {"app": 3}  # type: ignore[dict-item]
    with pytest.raises(BenchError, match="app is no table of fields"):
        resolve(tables)


def test_a_folder_that_is_there_is_not_run_in(tmp_path: Path) -> None:
    with pytest.raises(BenchError, match="File exists"):
        run.start(resolve({"app": {"name": "fib"}}), tmp_path)


def test_a_working_directory_that_is_gone_is_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    gone = tmp_path / "gone"
    gone.mkdir()
    monkeypatch.chdir(gone)
    gone.rmdir()
    assert main(["bench", "run", "--app", "fib"]) == 2
    assert "the working directory is gone" in capsys.readouterr().err


def test_a_disk_that_is_full_is_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def start(*_arguments: object) -> Path:
        raise OSError(errno.ENOSPC, "No space left on device", str(tmp_path))

    monkeypatch.setattr(run, "start", start)
    assert main(["bench", "run", "--app", "fib"]) == 2
    assert capsys.readouterr().err == f"gristmill bench: {tmp_path}: No space left on device\n"


def test_a_course_that_was_half_written_is_none(tmp_path: Path) -> None:
    (tmp_path / "course.json").write_text('{"raised": ')
    assert notes.course(tmp_path) is None


def test_a_plugin_is_found_that_is_installed_while_the_program_runs(
    theirs: None, tmp_path: Path
) -> None:
    assert "later" not in plugins.names("app")
    points = next((tmp_path / "site").glob("*.dist-info")) / "entry_points.txt"
    later = points.parent.with_name("later-1.0.dist-info")
    later.mkdir()
    (later / "METADATA").write_text("Metadata-Version: 2.1\nName: later\nVersion: 1.0\n")
    (later / points.name).write_text("[gristmill_bench.app]\nlater = theirs:Half\n")
    # The file system's clock may not have advanced since the last change.
    os.utime(later.parent, (1, 1))
    assert "later" in plugins.names("app")
