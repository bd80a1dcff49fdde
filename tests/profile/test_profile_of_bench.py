"""A profiled run of the suite."""

from __future__ import annotations

import importlib.util
import json
import os
from pathlib import Path

import pytest

if importlib.util.find_spec("gristmill_bench") is None:
    pytest.skip("gristmill-bench is not installed", allow_module_level=True)

from gristmill import instruments
from gristmill._cli import main
from gristmill._profile import permission
from gristmill_bench import BenchError, resolve

RUN = ["bench", "run", "--profile", "--app", "synthetic", "--app.structure", "bag"]


@pytest.mark.usefixtures("may_profile")
def test_a_run_is_profiled_with_all_its_workers(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["--app.sleep", "0.05", "--app.tasks", "30", "--executor.workers", "2"]
    assert main([*RUN, *words, "--run.folder", str(tmp_path)]) == 0
    profile, folder = map(Path, capsys.readouterr().out.splitlines()[-2:])
    assert profile == folder / "profile"
    assert json.loads((folder / "summary.json").read_text())["tasks"] == 30
    rows = json.loads((profile / "profile.json").read_text())["rows"]
    assert sum(row["threads"] for row in rows if row["process"] == "worker") == 2
    left = {"report.html", "timeline.json", "stacks.folded", "profile.json"}
    assert {one.name for one in profile.iterdir()} == left


@pytest.mark.slow
@pytest.mark.usefixtures("may_profile")
def test_a_profiled_run_that_does_not_end_is_ended_with_all_that_looks_at_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    mark = f"GRISTMILL_MARK={tmp_path}".encode()
    words = ["--app.sleep", "3600", "--run.timeout", "1.5", "--run.folder", str(tmp_path)]
    environment = ["--run.environment", json.dumps({"GRISTMILL_MARK": str(tmp_path)})]
    assert main([*RUN, *words, *environment]) == 2
    assert "did not end within 1.5 s" in capsys.readouterr().err
    for process in filter(str.isdigit, os.listdir("/proc")):
        try:
            environ = Path("/proc", process, "environ").read_bytes()
        except OSError:
            continue
        assert mark not in environ, process


@pytest.mark.usefixtures("may_profile")
def test_a_profiled_run_that_fails_says_why(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["--app", "mapreduce", "--app.text", str(tmp_path / "nowhere")]
    run = ["bench", "run", "--profile", "--executor", "inline", *words]
    assert main([*run, "--run.folder", str(tmp_path / "runs")]) == 2
    said = capsys.readouterr().err
    assert "there are no files of text in" in said
    assert "report.html" not in said


def test_a_run_that_cannot_be_profiled_is_refused_before_it_starts(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def refuse() -> str:
        raise permission.CannotProfile("tracing is forbidden")

    monkeypatch.setattr(instruments, "find_sampler", refuse)
    with pytest.raises(BenchError, match=r"run\.profile: .*tracing is forbidden"):
        resolve({"app": {"name": "fib"}, "run": {"profile": True}})
