"""Other engines run the same applications, where they are installed."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from gristmill._cli import main
from gristmill_bench.plugins import find

APPS = [
    ["fib", "--app.n", "6"],
    ["synthetic", "--app.structure", "diamond", "--app.tasks", "6", "--app.size", "5000"],
]


@pytest.mark.slow
@pytest.mark.parametrize("executor", ["dask", "loky", "mpi", "parsl", "ray"])
def test_a_peer_runs_what_we_run(
    executor: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    missing = find("executor", executor).missing()
    if missing is not None:
        pytest.skip(missing)
    moved = ["--transformer", "pickled-files", "--filter", "object-size", "--filter.least", "1000"]
    for app in APPS:
        words = ["bench", "run", "--executor", executor, "--app", *app, *moved]
        assert main([*words, "--run.folder", str(tmp_path)]) == 0
        folder = Path(capsys.readouterr().out.splitlines()[-1])
        tasks = json.loads((folder / "summary.json").read_text())["tasks"]
        notes = [json.loads(line) for line in (folder / "tasks.jsonl").read_text().splitlines()]
        assert len(notes) == tasks
        assert all(note["success"] for note in notes)
