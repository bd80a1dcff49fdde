"""Programs that import Parsl run on Gristmill's kernel as they are."""

from __future__ import annotations

import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Any

import pytest

from gristmill.parsl.presence import is_parsl_installed

pytestmark = pytest.mark.skipif(not is_parsl_installed(), reason="needs Parsl")

PROGRAM = """
import os
import sys
import parsl
from parsl import Config, File, bash_app, join_app, python_app
from parsl.app.errors import BashExitFailure
from parsl.dataflow.errors import DependencyError
from parsl.dataflow.futures import AppFuture
from parsl.executors import ThreadPoolExecutor


@python_app
def double(value):
    return 2 * value


@python_app
def whose():
    return os.getpid()


@bash_app
def leave(code, stdout=None, stderr=None):
    return f"echo leaving; exit {code}"


@join_app
def again(value):
    return double(value)


if __name__ == "__main__":
    executors = [ThreadPoolExecutor(label="threads", max_threads=2)]
    config = Config(executors=executors, run_dir=sys.argv[1], initialize_logging=False)
    with parsl.load(config) as kernel:
        assert parsl.dfk() is kernel
        future = double(double(1))
        assert isinstance(future, AppFuture)
        assert (future.result(), again(4).result()) == (4, 8)
        out = os.path.join(sys.argv[1], "out")
        assert leave(0, stdout=out).result() == 0
        try:
            double(leave(3, stdout=os.devnull)).result()
        except DependencyError as error:
            assert isinstance(error.__cause__, BashExitFailure) and error.__cause__.exitcode == 3
        else:
            raise AssertionError
        print(open(out).read().strip(), type(kernel).__mro__[1].__module__, whose().result() == os.getpid())
"""


def _run(tmp_path: Path, *options: str, program: str = PROGRAM) -> Any:
    path = tmp_path / "program.py"
    path.write_text(textwrap.dedent(program))
    command = [sys.executable, "-m", "gristmill.parsl", *options, str(path), str(tmp_path / "runs")]
    return subprocess.run(command, text=True, capture_output=True, cwd=tmp_path)


@pytest.mark.parametrize(
    ("options", "is_here"), [((), "True"), (("--engine", "--workers", "1"), "False")]
)
def test_an_unmodified_program_runs(tmp_path: Path, options: tuple[str, ...], is_here: str) -> None:
    done = _run(tmp_path, *options)
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == ["leaving", "gristmill.parsl.kernel", is_here]


def test_a_program_is_run_as_python_would(tmp_path: Path) -> None:
    (tmp_path / "beside.py").write_text("name = 'beside'")
    program = (
        "import sys, beside\nprint(__name__, beside.name, sys.argv[1:], __file__)\nsys.exit(7)"
    )
    done = _run(tmp_path, program=program)
    assert done.returncode == 7
    expected = f"__main__ beside {[str(tmp_path / 'runs')]} {tmp_path / 'program.py'}\n"
    assert done.stdout == expected
