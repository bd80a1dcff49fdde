"""Failures that kill processes run in namespaces of their own, or not at all: a run can never reach other processes."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from gristmill._cli import main
from gristmill_bench import BenchError, Engine, apart
from gristmill_bench.apart import Fence, NotApart
from gristmill_bench.apps.failures import Failures
from gristmill_bench.executors.here import Inline
from gristmill_bench.faults.kinds import _NODE, HARMFUL, FailureKind, Scene, fail

from apart_runs import need_namespaces, run

#: Real runs that take seconds: ./dev suite runs all of them.
pytestmark = pytest.mark.slow

HERE = os.readlink("/proc/self/ns/pid")
KILLING = [*sorted(HARMFUL), "random"]


@pytest.fixture
def signals(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Replaces the functions that send signals; returns the process of each signal that would have been sent."""
    sent: list[int] = []
    monkeypatch.setattr(os, "kill", lambda process, number: sent.append(process))
    monkeypatch.setattr(signal, "pidfd_send_signal", lambda *given: sent.append(given[0]))
    return sent


@pytest.mark.parametrize("kind", KILLING)
def test_an_application_that_kills_is_refused_outside(
    kind: Any, signals: list[int], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    app = Failures(base="fib", type=kind, rate=1)
    for outside in (None, HERE, "pid:[1]"):
        if outside is not None:
            monkeypatch.setenv(apart.OUTSIDE, outside)
        with pytest.raises(BenchError, match="run by the suite only"):
            app.run(Engine(Inline().open()), tmp_path)
    assert not signals
    assert not any(tmp_path.iterdir()), "no task was submitted"


@pytest.mark.parametrize("kind", sorted(HARMFUL))
@pytest.mark.parametrize("fence", [None, Fence(HERE), Fence("pid:[1]")])
def test_a_task_that_finds_itself_outside_kills_no_process(
    kind: FailureKind, fence: Fence | None, signals: list[int]
) -> None:
    scene = Scene(program=1, may_die=True, memory_size=1, fence=fence)
    with pytest.raises(NotApart):
        fail(kind, 0, scene)
    assert not signals
    assert not Path(_NODE).exists()


def test_a_program_with_other_things_to_do_does_not_kill_itself(signals: list[int]) -> None:
    scene = Scene(program=os.getpid(), may_die=False, memory_size=1, fence=None)
    with pytest.raises(NotApart, match="other things to do"):
        fail("worker-killed", 0, scene)
    assert not signals


def test_where_there_is_no_unshare_that_is_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    assert refused(tmp_path, capsys).endswith("apt-get install util-linux)\n")


def test_where_there_are_no_namespaces_that_is_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    tools = tmp_path / "tools"
    tools.mkdir()
    tool = tools / "unshare"
    tool.write_text(
        "#!/bin/sh\necho unshare: unshare failed: Operation not permitted >&2\nexit 1\n"
    )
    tool.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tools}{os.pathsep}{os.environ['PATH']}")
    said = refused(tmp_path, capsys)
    assert "namespaces: unshare: unshare failed: Operation not permitted (see sysctl" in said


def test_a_run_apart_cannot_have_its_folder_where_it_has_other_files(
    capsys: pytest.CaptureFixture[str],
) -> None:
    need_namespaces()
    words = ["--app", "fib", "--run.apart", "true", "--run.folder", "/dev/shm/runs"]
    assert main(["bench", "run", *words]) == 2
    assert (
        "run.folder: a run in namespaces of its own has another /dev/shm" in capsys.readouterr().err
    )
    assert not Path("/dev/shm/runs").exists()


def refused(folder: Path, capsys: pytest.CaptureFixture[str]) -> str:
    """Returns the error message for a run that cannot have namespaces; no run is started."""
    words = ["--app", "failures", "--app.base", "fib", "--app.type", "node-killed"]
    assert main(["bench", "run", *words, "--run.folder", str(folder / "runs")]) == 2
    assert not (folder / "runs").exists()
    return capsys.readouterr().err


@pytest.fixture
def bystander() -> Iterator[subprocess.Popen[bytes]]:
    """Yields a process that is a child of this one, as the run is."""
    process = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    yield process
    process.communicate(b"\n")


def test_a_node_is_killed_and_nothing_else(
    bystander: subprocess.Popen[bytes], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    need_namespaces()
    words = ["--app.type", "node-killed", "--executor.loss_retries", "3"]
    folder, summary = run(tmp_path, capsys, *words)
    assert summary["figures"]["recovered_tasks"] == 1
    assert summary["figures"]["lost_tasks"] == 0
    assert bystander.poll() is None
    assert not mentioning(folder)


def test_what_is_apart_ends_with_its_time_and_leaves_no_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    need_namespaces()
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    monkeypatch.setenv("TMPDIR", str(temporary))
    # The fork server of this executor has a folder for temporary files, and is killed.
    words = ["--app", "synthetic", "--app.sleep", "3600", "--executor", "processes"]
    options = ["--run.apart", "true", "--run.timeout", "2", "--run.folder", str(tmp_path)]
    assert main(["bench", "run", *words, *options]) == 2
    assert "did not end within 2 s" in capsys.readouterr().err
    assert not mentioning(tmp_path)
    assert not any(temporary.iterdir())


def mentioning(folder: Path) -> list[Path]:
    """Returns the processes whose command lines mention the folder."""
    lines = Path("/proc").glob("[0-9]*/cmdline")
    return [one for one in lines if str(folder).encode() in bytes_of(one)]


def bytes_of(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError:
        return b""


def test_any_run_can_be_apart(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    need_namespaces()
    folder, summary = run(tmp_path, capsys, "--run.apart", "true", "--executor", "processes")
    assert summary["figures"]["injected_tasks"] == 1
    assert apart.OUTSIDE in (folder / "environment.json").read_text()
