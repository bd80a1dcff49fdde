"""All executors run under equal conditions: as many workers as requested, one thread each, and no memoization."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from plugged import install

from gristmill._cli import main
from gristmill_bench.plugins import find, names

#: Real runs that take seconds: ./dev suite runs all of them.
pytestmark = pytest.mark.slow

#: An application of a third-party distribution. Its tasks wait for each other, so no worker can run two of them.
LOOKING = '''
import os
import threading
import time
from pathlib import Path

from gristmill_bench import App, WrongResult


def look(folder, number, workers):
    """Who runs it, what can differ from call to call, and the threads that libraries are allowed."""
    Path(folder, f"{os.getpid()}-{threading.get_native_id()}").touch()
    while len(os.listdir(folder)) < workers:
        time.sleep(0.001)
    return os.getpid(), threading.get_native_id(), os.urandom(8), threads_here()


def threads_here():
    try:
        import numpy
        from threadpoolctl import threadpool_info
    except ImportError:
        return {int(os.environ["OMP_NUM_THREADS"])}
    numpy.ones((2, 2)) @ numpy.ones((2, 2))
    return {one["num_threads"] for one in threadpool_info()} | {int(os.environ["OMP_NUM_THREADS"])}


class Looking(App):
    threads: int

    def run(self, engine, folder):
        met = folder / "met"
        met.mkdir()
        tasks = [
            engine.submit(look, str(met), 0, engine.workers) for _ in range(4 * engine.workers)
        ]
        return engine.workers, [task.result() for task in tasks]

    def check(self, result):
        workers, seen = result
        who = {(process, thread) for process, thread, _, _ in seen}
        if len(who) != workers:
            raise WrongResult(f"{len(who)} workers in the place of {workers}")
        if len({drawn for _, _, drawn, _ in seen}) != len(seen):
            raise WrongResult("a call was answered with what another one had returned")
        threads = set().union(*(one for _, _, _, one in seen))
        if threads != {self.threads}:
            raise WrongResult(f"{threads} threads in the place of {self.threads}")
        return f"{workers} workers"
'''
ELSEWHERE = {"globus", "taskvine"}


@pytest.fixture
def looking(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Installs the application, for this process and for runs."""
    install(tmp_path, monkeypatch, "looking", LOOKING, ["Looking"])


@pytest.mark.parametrize(
    ("executor", "options"),
    [
        *(pytest.param(name, [], id=name) for name in sorted(set(names("executor")) - ELSEWHERE)),
        pytest.param(
            "gristmill",
            ["--executor.nodes", "2"],
            id="gristmill-nodes",
        ),
        # Each of its tasks runs in a process of its own.
        pytest.param("taskvine", ["--executor.calls", "direct"], id="taskvine"),
        pytest.param("processes", ["--executor.threads", "2"], id="two-threads"),
        pytest.param(
            "gristmill",
            ["--executor.threads", "2"],
            id="gristmill-two-threads",
        ),
    ],
)
def test_workers_and_their_threads_are_those_that_were_asked_for(
    executor: str,
    options: list[str],
    looking: None,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    missing = find("executor", executor).missing()
    if missing is not None:
        pytest.skip(missing)
    words = ["--app", "looking", "--app.threads", "2" if "--executor.threads" in options else "1"]
    words += ["--executor", executor, *options, "--run.timeout", "100"]
    assert main(["bench", "run", *words, "--run.folder", str(tmp_path)]) == 0, capsys.readouterr()
    said, *_, folder = capsys.readouterr().out.splitlines()
    found = json.loads(Path(folder, "summary.json").read_text())
    workers = 1 if executor == "inline" else 2
    assert said.endswith(f"{workers} workers")
    assert found["tasks"] == 4 * workers
