"""The gate's scripts: which failures are forgiven, and what a long check says at its end."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

_ROOT = Path(__file__).parents[1]
_PYTEST = _ROOT / "scripts/lib/run_pytest.py"

#: Fails the first time it runs in a folder, and passes then.
FLAKY = """
    from pathlib import Path

    def test_{name}():
        mark = Path(__file__).with_suffix(".{name}")
        if not mark.exists():
            mark.touch()
            {failure}
"""


class Suite:
    """A folder with tests of its own, run as the gate runs tests."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._outcomes = folder / "outcomes"
        self._outcomes.mkdir()
        (folder / "pytest.ini").write_text("[pytest]\n")

    def add(self, name: str, failure: str = "assert 1 == 2") -> None:
        """Adds a test that fails once."""
        text = textwrap.dedent(FLAKY).format(name=name, failure=failure)
        (self._folder / f"test_{name}.py").write_text(text)

    def run(self, *arguments: str) -> tuple[int, str]:
        """Runs the tests; returns the exit status and what was printed."""
        environment = {**os.environ, "GRISTMILL_OUTCOMES": str(self._outcomes)}
        environment.pop("GRISTMILL_STRICT", None)
        # Other plug-ins take longer to load than these tests take.
        environment["PYTEST_DISABLE_PLUGIN_AUTOLOAD"] = "1"
        environment["PYTEST_PLUGINS"] = "xdist.plugin,pytest_timeout,pytest_reportlog.plugin"
        command = [sys.executable, str(_PYTEST), "-p", "no:cacheprovider", *arguments]
        options = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "text": True}
        done = subprocess.run(command, cwd=self._folder, env=environment, check=False, **options)  # type: ignore[call-overload]
        return done.returncode, done.stdout

    def outcomes(self, kind: str) -> list[str]:
        """Returns the commands that were left for outcomes of this kind."""
        file = self._outcomes / kind
        return file.read_text().splitlines() if file.exists() else []


@pytest.fixture
def suite(tmp_path: Path) -> Suite:
    return Suite(tmp_path)


def test_a_test_that_passes_when_run_once_more_is_named_and_forgiven(suite: Suite) -> None:
    suite.add("unsteady")
    suite.add("other")
    status, printed = suite.run("-n", "2")
    assert status == 0
    flaky = sorted(line for line in printed.splitlines() if line.startswith("FLAKY "))
    assert flaky == ["FLAKY test_other.py::test_other", "FLAKY test_unsteady.py::test_unsteady"]
    assert (
        sorted(suite.outcomes("flaky"))[1] == "python -m pytest -q test_unsteady.py::test_unsteady"
    )
    # Two are forgiven by all runs together.
    suite.add("third")
    status, printed = suite.run("test_third.py")
    assert status == 1
    assert "FLAKY" not in printed
    assert suite.outcomes("failed") == ["python -m pytest -q test_third.py::test_third"]


def test_strict_runs_forgive_nothing(suite: Suite) -> None:
    suite.add("unsteady")
    status, printed = suite.run("--strict")
    assert (status, "FLAKY" in printed) == (1, False)


def test_a_test_that_fails_again_is_red(suite: Suite, tmp_path: Path) -> None:
    (tmp_path / "test_broken.py").write_text("def test_broken(): assert 1 == 2\n")
    status, printed = suite.run()
    assert (status, "once more, alone: test_broken.py::test_broken" in printed) == (1, True)


@pytest.mark.parametrize(
    "failure",
    [
        "import time; time.sleep(60)",
        "import concurrent.futures; concurrent.futures.Future().result(timeout=0)",
        "import os; os.kill(os.getpid(), 9)",
        "import subprocess, sys; subprocess.run([sys.executable, '-c', 'import os; os.abort()'], check=True)",
    ],
    ids=["hang", "timeout", "pytest worker killed", "program killed"],
)
def test_hangs_and_deaths_are_never_forgiven(suite: Suite, failure: str) -> None:
    suite.add("unsteady", failure)
    status, printed = suite.run("-n", "1", "--timeout", "1")
    assert (status, "FLAKY" in printed) == (1, False)
    assert "not forgiven: test_unsteady.py::test_unsteady" in printed


def test_errors_of_collection_are_never_forgiven(suite: Suite, tmp_path: Path) -> None:
    (tmp_path / "test_broken.py").write_text("import nowhere_to_be_found\n")
    status, printed = suite.run()
    # pytest gives the status of an interrupt.
    assert (status, "FLAKY" in printed) == (2, False)


STEPS = """
    source scripts/lib/steps.sh
    skip_passed={skip}
    step true
    begin sh -c 'echo beside; exit 3'
    step false
    step sh -c 'read line || echo "no standard input"'
    await
    finish
"""


def _steps(folder: Path, skip: str = "") -> subprocess.CompletedProcess[str]:
    """Runs four steps, one beside others, in a clone of a repository with one commit; two of them fail."""
    environment = {**os.environ, "XDG_CACHE_HOME": str(folder / "cache")}
    text = textwrap.dedent(STEPS).format(skip=skip)
    return subprocess.run(
        ["bash", "-c", text],
        cwd=folder / "clone",
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )


def _clone(folder: Path) -> None:
    library = folder / "clone/scripts/lib"
    library.mkdir(parents=True)
    (library / "steps.sh").write_text((_ROOT / "scripts/lib/steps.sh").read_text())
    identity = ["-c", "user.name=t", "-c", "user.email=t@localhost"]
    for command in (["init", "-q"], ["add", "."], [*identity, "commit", "-q", "-m", "steps"]):
        subprocess.run(["git", *command], cwd=folder / "clone", check=True)


def test_a_step_that_fails_does_not_stop_the_others_and_is_listed_at_the_end(
    tmp_path: Path,
) -> None:
    _clone(tmp_path)
    done = _steps(tmp_path)
    assert done.returncode == 1
    assert done.stdout == "no standard input\nbeside\n"
    assert re.search(r"^== false: \d+ s, FAILED$", done.stderr, re.MULTILINE)
    _, _, end = done.stderr.partition("Failed steps, each repeated alone by its command:\n")
    assert end == "  false\n  sh -c echo beside; exit 3\n"


def test_steps_that_passed_on_a_commit_are_not_repeated_where_the_files_are_the_commits(
    tmp_path: Path,
) -> None:
    _clone(tmp_path)
    assert "passed before" not in _steps(tmp_path, "yes").stderr
    again = _steps(tmp_path, "yes").stderr
    assert "== true: passed before on this commit" in again
    assert "== false: passed before" not in again
    (tmp_path / "clone/changed").write_text("a file that the commit has not\n")
    assert "passed before" not in _steps(tmp_path, "yes").stderr
