"""The watch over a run of other projects' tests: a test that kills pytest is named, and the tests after it are run."""

from __future__ import annotations

import importlib
import os
import sys
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.slow

_CONFORMANCE = Path(__file__).parents[1] / "conformance"


@pytest.fixture
def outcomes_of(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Returns a function that runs a file of tests under the watch."""
    monkeypatch.syspath_prepend(str(_CONFORMANCE))
    watch, tally = map(importlib.import_module, ["watch", "tally"])

    def run(tests: str, silence_s: float = 100, left_out: str = "") -> Any:
        monkeypatch.setattr(watch, "_SILENCE_S", silence_s)
        (tmp_path / "test_some.py").write_text(f"import os, signal\n{tests}")
        path = tmp_path / "tally"
        ours = ["-p", "counted_run", "--conformance-run", "none", "--conformance-tally", str(path)]
        if left_out:
            (tmp_path / "left-out.toml").write_text(left_out)
            ours += ["--conformance-left-out", str(tmp_path / "left-out.toml")]
        command = [sys.executable, "-m", "pytest", "-c", os.devnull, "--rootdir", ".", *ours]
        # The tests need no plug-ins, and loading them takes longer than the tests.
        without = {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
        environment = {**os.environ, **without, "PYTHONPATH": str(_CONFORMANCE)}
        watch.run([*command, "test_some.py"], tmp_path, environment, path)
        return tally.read(path)

    return run


def test_a_test_that_kills_pytest_has_failed_and_those_after_it_are_run(outcomes_of: Any) -> None:
    known = outcomes_of(
        """
def test_before(): pass
def test_kills(): os.kill(os.getpid(), signal.SIGKILL)
def test_fails(): assert False
def test_leaves(): os._exit(0)
def test_interrupts(): os.kill(os.getpid(), signal.SIGINT)
def test_after(): pass
"""
    )
    names = {test.removeprefix("test_some.py::test_"): is_ for test, is_ in known.outcomes.items()}
    assert names == {
        "before": "passed",
        "kills": "failed",
        "fails": "failed",
        "leaves": "failed",
        "interrupts": "failed",
        "after": "passed",
    }
    assert list(known.deaths.values()) == ["died of SIGKILL", "exited with 0", "exited with 2"]


def test_a_test_that_says_nothing_for_too_long_is_killed(outcomes_of: Any) -> None:
    known = outcomes_of("def test_waits(): signal.pause()\ndef test_after(): pass", silence_s=3)
    assert list(known.outcomes.values()) == ["failed", "passed"]
    assert list(known.deaths.values()) == ["was silent for 3 s"]


def test_what_a_forked_process_does_is_no_test(outcomes_of: Any) -> None:
    known = outcomes_of(
        """
def test_forks():
    if child := os.fork():
        os.waitpid(child, 0)
    else:
        raise RuntimeError
def test_after(): pass
"""
    )
    assert list(known.outcomes.values()) == ["passed", "passed"]


def test_pytest_that_cannot_begin_is_a_failure(outcomes_of: Any) -> None:
    known = outcomes_of("os._exit(3)")
    assert known.deaths == {"pytest itself, after the start": "exited with 3"}
    assert known.failures == ["pytest itself, after the start"]


_LIST = """are-run = true
[[left-out]]
runs = ["none"]
tests = ["test_some.py::test_listed"]
private = true
reason = "some"
"""


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ("assert False", "left out"),
        ("pass", "failed"),
        ("__import__('pytest').skip()", "failed"),
        ("os._exit(0)", "failed"),
        ("assert False, 'Timeout (>60.0s) from pytest-timeout.'", "failed"),
    ],
)
def test_a_test_that_is_left_out_has_to_fail_in_order(
    outcomes_of: Any, body: str, expected: str
) -> None:
    known = outcomes_of(
        f"def test_listed(): {body}\ndef test_other(): pass",
        left_out=_LIST,
    )
    assert known.outcomes == {
        "test_some.py::test_listed": expected,
        "test_some.py::test_other": "passed",
    }
    assert next(iter(known.outcomes)) == "test_some.py::test_other"
    assert known.numbers()["left out"] == known.numbers()["functions"] == 1
    assert known.numbers()["collected"] == 2
