"""The verdict on an executor follows from the evidence of a run, and the worst finding decides."""

from __future__ import annotations

import json
import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from gristmill._cli import main
from gristmill_bench.errors import BenchError
from gristmill_bench.executors.here import Threads
from gristmill_bench.executors.ours import Gristmill
from gristmill_bench.faults import notes
from gristmill_bench.faults.evidence import Evidence, Task
from gristmill_bench.faults.matrix import columns
from gristmill_bench.faults.notes import Course
from gristmill_bench.faults.tables import Cell, is_whole, page, text
from gristmill_bench.faults.verdict import Verdict, Word, judge, names_cause

GOOD = Task(0, None, 1, "result")
WAITED = Task(0, None, 0, "error", "BrokenProcessPool: it was terminated abruptly")
RAN = replace(WAITED, executions=1)
KILLED = Task(9, "worker-killed", 1, "error", "WorkerLostError: task 9 was lost")
RAISED = Task(9, "zero-division", 1, "error", "ZeroDivisionError: division by zero")
AGAIN = Task(9, "worker-killed", 2, "result")
BROKEN = Course(error="WorkerLostError: x", probe="BrokenProcessPool: x")


def evidence(*tasks: Task, **fields: Any) -> Evidence:
    """Returns the evidence of a run that ended, with two good tasks before the given ones."""
    given: dict[str, Any] = {"status": 0, "course": Course()}
    numbered = (replace(GOOD, number=number) for number in (1, 2))
    return Evidence(tasks=(*numbered, *tasks), **{**given, **fields})


@pytest.mark.parametrize(
    ("found", "says"),
    [
        (evidence(AGAIN, loss_repeats=1), "recovered"),
        (evidence(AGAIN, replace(GOOD, executions=2), loss_repeats=1), "recovered: 1 other ran again"),
        (evidence(replace(KILLED, outcome="result")), "unharmed"),
        (evidence(KILLED), "reported"),
        (evidence(replace(KILLED, error="ValueError: 3")), "reported: the cause is not named"),
        (evidence(KILLED, RAN), "others lost too: 1 other lost that ran then"),
        (evidence(KILLED, RAN, WAITED), "others lost too: 2 others lost, 1 of them never seen to begin"),
        (evidence(AGAIN, WAITED, loss_repeats=1), "others lost too: 1 other lost, 1 of them never seen to begin"),
        (evidence(KILLED, replace(WAITED, parents=(1, 9))), "reported: 1 other not run because a result is missing"),
        (evidence(KILLED, replace(WAITED, parents=(1,))), "others lost too: 1 other lost, 1 of them never seen to begin"),
        (evidence(KILLED, course=BROKEN), "pool broken"),
        (evidence(KILLED, WAITED, course=BROKEN), "pool broken: 1 other lost, 1 of them never seen to begin"),
        (evidence(KILLED, status=1), "reported: its shutdown failed, exit status 1"),
        (evidence(RAISED, status=139), "reported: its shutdown failed, SIGSEGV"),
        (evidence(KILLED, status=137, course=None), "program died: SIGKILL"),
        (evidence(KILLED, status=3, course=None), "program died: exit status 3"),
        (evidence(replace(KILLED, outcome=None), status=None, course=None), "hung: 1 task never ended"),
        (evidence(KILLED, status=None), "hung: in its shutdown"),
        (evidence(replace(WAITED, outcome=None), status=None, course=None), "hung: 1 task never ended"),
        (Evidence((), None, None), "hung: before its first task"),
        (evidence(replace(KILLED, outcome=None)), "lost: 1 task never ended"),
        (evidence(KILLED, replace(GOOD, outcome="wrong")), "lost: 1 task returned what others should"),
        (evidence(AGAIN, loss_repeats=1, status=1, said="gristmill bench: no squares"), "lost: gristmill bench: no squares"),
        (evidence(AGAIN), "ran twice: 1 task began more often than allowed"),
        (evidence(RAISED, replace(GOOD, executions=2), loss_repeats=3), "ran twice: 1 task began more"),
        (evidence(AGAIN, status=None, course=None), "ran twice: 1 task"),
        (evidence(), "not run: none of 2 tasks was to fail, by app.rate and app.seed"),
        (Evidence((), 1, None, "it cannot be opened"), "not run: it cannot be opened"),
    ],
)  # fmt: skip
def test_a_verdict_follows_from_the_evidence(found: Evidence, says: str) -> None:
    verdict = str(judge(found))
    assert verdict == says or (says.startswith("ran twice") and verdict.startswith(says))


@pytest.mark.parametrize(
    ("kind", "error"),
    [
        ("worker-killed", "TerminatedWorkerError: A worker process managed by the executor was"),
        (
            "worker-killed",
            "WorkerLostError: task 0.3 was lost: worker 1 ended with signal 9 (SIGKILL)",
        ),
        ("manager-killed", "ManagerLost: Task failure due to loss of manager"),
        ("timeout", "TaskTimeoutError: task 0.3 ran for longer than 2 s"),
        ("timeout", "AppTimeout: "),
        ("memory", "MemoryError: "),
        ("ulimit", "OSError: [Errno 24] Too many open files: '/dev/null'"),
        ("dependency", "DependencyError: task 0.4\nInjectedFailure: task 1 was made to fail"),
    ],
)
def test_an_error_names_its_cause(kind: Any, error: str) -> None:
    assert names_cause(Task(0, kind, 1, "error", error))
    assert not names_cause(Task(0, kind, 1, "error", "KeyError: 'x'"))


def test_what_is_noted_can_be_read_though_the_program_was_killed_meanwhile(tmp_path: Path) -> None:
    assert (notes.planned(tmp_path), notes.ended(tmp_path), notes.course(tmp_path)) == (
        [],
        {},
        None,
    )
    noted = notes.Notes(tmp_path)
    for number in range(3):
        noted.planned(notes.Planned(number, "task", "failure" if number == 1 else None))
    try:
        raise BenchError("wrapped") from KeyError("inner")
    except BenchError as error:
        noted.ended(1, "error", error)
    noted.ended(1, "result", None)
    with open(tmp_path / "tasks-planned.jsonl", "ab") as file:
        file.write(b'{"numb')
    assert [one.kind for one in notes.planned(tmp_path)] == [None, "failure", None]
    assert notes.ended(tmp_path) == {
        1: notes.Fate(1, "error", "BenchError: wrapped\nKeyError: 'inner'")
    }


def test_errors_about_files_of_any_name_are_noted(tmp_path: Path) -> None:
    noted = notes.Notes(tmp_path)
    error = ValueError("no such file: " + os.fsdecode(b"/nowhere/\xff"))
    noted.ended(0, "error", error)
    noted.course(error, None)
    course = notes.course(tmp_path)
    assert course is not None
    assert course.error == notes.ended(tmp_path)[0].error
    assert "/nowhere/\\udcff" in course.error


def test_cells_of_several_runs_say_how_often_each_was_seen() -> None:
    reported = Cell(Verdict(Word.REPORTED), "a", 1.0, ["X: y"])
    hung = Cell(Verdict(Word.HUNG, "1 task never ended"), "b", 60.0, [])
    found = {"timeout": {"ours": [reported, reported], "theirs": [reported, hung]}}
    assert text(found).splitlines()[1].split("  ")[1:] == ["reported", "reported (1), hung (1)"]
    assert page(found, {"Python": "3.11", "theirs": "2"}).splitlines() == [
        "|  | ours | theirs |",
        "| --- | --- | --- |",
        "| timeout | reported | reported (1), hung (1) |",
        "",
        "- `timeout`, theirs: hung: 1 task never ended",
        "",
        "Measured with Python 3.11, theirs 2.",
    ]
    assert is_whole(found)
    assert not is_whole({"timeout": {"ours": [Cell(Verdict(Word.NOT_RUN), "c", 0.0, [])]}})


def test_all_executors_that_are_installed_are_measured_in_all_their_ways(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("gristmill_bench.plugins._is_installed", lambda name: name == "parsl")
    labels = [column.label for column in columns(None)]
    ways = ["loss_retries=3", "nodes=2", "lease=True", "batches=100", "start=spawn"]
    ours = ["gristmill", *(f"gristmill {way}" for way in ways), "gristmill-parsl"]
    parsls = ["parsl", "parsl executor=threads"]
    assert [label for label in labels if label.startswith(("gristmill", "parsl"))] == ours + parsls
    assert {"processes", "threads"} <= set(labels)
    assert not {"dask", "ray", "inline"} & set(labels)
    assert [column.label for column in columns(["inline"])] == ["inline"]


def test_an_executor_that_has_to_be_told_something_is_measured_when_it_is_named(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    class Elsewhere(Threads):
        address: str

    monkeypatch.setattr("gristmill_bench.plugins.find", lambda _kind, _name: Elsewhere)
    assert columns(None) == []
    assert len(columns(["elsewhere"])) == 1


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["--types", "bad-luck"], "there is no type 'bad-luck'; there are: dependency, failure"),
        (["--executors", "slow"], "there is no executor 'slow'"),
        (["--repeats", "0"], "--repeats must be at least 1"),
        (["--app.base", "fob"], "there is no app 'fob'"),
        (["--app.seed", "x"], "app.seed"),
        (["--app.type", "failure"], "--types"),
    ],
)
def test_a_matrix_that_cannot_be_measured_is_refused_before_anything_is_run(
    words: list[str], says: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    place = ["--run.folder", str(tmp_path)]
    assert main(["bench", "matrix", "--executors", "inline", *words, *place]) == 2
    assert says in capsys.readouterr().err
    assert not any(tmp_path.iterdir())


@pytest.mark.slow
def test_one_task_fails_of_the_application_that_the_page_names(tmp_path: Path) -> None:
    page_text = (Path(__file__).parents[2] / "docs/bench/failures.md").read_text()
    words = "--app.base cholesky --app.config.size 512"
    assert f"`{words}`" in page_text
    options = ["--executors", "inline", "--types", "failure", "--run.folder", str(tmp_path)]
    assert main(["bench", "matrix", *words.split(), *options]) == 0


@pytest.mark.slow
def test_a_matrix_is_measured_in_runs_of_their_own(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["--executors", "threads", "--types", "worker-killed,ulimit"]
    options = ["--app.config.tasks", "5", "--app.rate", "0.2", "--run.timeout", "60"]
    assert main(["bench", "matrix", *words, *options, "--run.folder", str(tmp_path)]) == 0
    head, first, second, place = capsys.readouterr().out.splitlines()
    assert head.split() == ["threads"]
    assert first.split("  ") == ["worker-killed", "program died"]
    assert second.split() == ["ulimit", "reported"]
    found = json.loads((Path(place) / "matrix.json").read_text())
    cell = found["cells"]["worker-killed"]["threads"][0]
    assert (cell["verdict"], cell["note"]) == ("program died", "SIGKILL")
    assert (Path(place) / cell["folder"] / "tasks-planned.jsonl").exists()
    assert "| ulimit | reported |" in (Path(place) / "matrix.md").read_text()
    assert found["versions"].keys() == {"Python", "gristmill"}


@pytest.mark.slow
def test_what_is_refused_here_is_told_in_its_cell_and_the_others_are_measured(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    words = [
        "--executors",
        "inline",
        "--types",
        "node-killed,failure",
        "--run.folder",
        str(tmp_path),
    ]
    assert main(["bench", "matrix", *words]) == 1
    _, refused, measured, place = capsys.readouterr().out.splitlines()
    assert (refused.split("  ")[1], measured.split()[1]) == ("not run", "reported")
    assert "there is no unshare" in (Path(place) / "matrix.md").read_text()


@pytest.mark.slow
@pytest.mark.parametrize("way", Gristmill.ways, ids=str)
def test_no_failure_makes_ours_hang_lose_or_repeat_anything(
    way: dict[str, Any],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(Gristmill, "ways", (way,))
    words = ["--executors", "gristmill", "--run.timeout", "60"]
    assert main(["bench", "matrix", *words, "--run.folder", str(tmp_path)]) == 0
    place = Path(capsys.readouterr().out.splitlines()[-1])
    cells = json.loads((place / "matrix.json").read_text())["cells"]
    bad = {"hung", "lost", "ran twice", "program died", "pool broken", "not run"}
    assert {
        (type, label, cell["verdict"])
        for type, row in cells.items()
        for label, found in row.items()
        for cell in found
        if cell["verdict"] in bad
    } == set()
