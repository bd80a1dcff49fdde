"""Applications with injected task failures: each failure on our executor and on the standard library's."""

from __future__ import annotations

import os
import resource
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from gristmill._cli import main
from gristmill_bench import Engine, ExecutorPlugin
from gristmill_bench.apps.failures import Failures, Tally
from gristmill_bench.apps.synthetic import Synthetic
from gristmill_bench.command import fields_of
from gristmill_bench.config import merge, resolve
from gristmill_bench.executors.here import Inline
from gristmill_bench.executors.ours import Gristmill
from gristmill_bench.executors.pools import Processes
from gristmill_bench.faults import notes
from gristmill_bench.faults.evidence import read
from gristmill_bench.faults.injector import Plan
from gristmill_bench.faults.kinds import FAILURE_KINDS, FailureKind, Scene, fail
from gristmill_bench.faults.verdict import Word, judge, names_cause
from gristmill_bench.faults.watched import executions
from gristmill_bench.plugins import find

from apart_runs import need_namespaces, run

#: Failures that raise, and harm no other task on any executor.
RAISING: list[FailureKind] = [
    "dependency",
    "failure",
    "import",
    "memory",
    "ulimit",
    "zero-division",
]
ONE_OF_TEN = {"base": "synthetic", "config": {"tasks": 10}, "memory_size": 32 << 20}


@pytest.fixture(scope="module", params=[Gristmill(), Processes()], ids=["gristmill", "processes"])
def engine(request: pytest.FixtureRequest) -> Iterator[Engine]:
    backend = request.param.open()
    yield Engine(backend)
    backend.shutdown()


def failing(type: Any, **fields: Any) -> Failures:
    return Failures.model_validate({**ONE_OF_TEN, "type": type, **fields})


@pytest.mark.parametrize("kind", RAISING)
def test_what_raises_is_reported_by_the_task_that_failed_and_no_other(
    kind: FailureKind, engine: Engine, tmp_path: Path
) -> None:
    app = failing(kind)
    tally: Tally = app.run(engine, tmp_path)
    assert (tally.injected, tally.recovered, tally.others, tally.lost) == (1, 0, 9, 0)
    found = read_at_end(tmp_path)
    (failed,) = found.injected
    assert failed.kind == kind
    assert names_cause(failed), failed.error
    assert failed.executions == (0 if kind == "dependency" else 1)
    assert [task.executions for task in found.others] == [1] * 9
    assert judge(found).word is Word.REPORTED
    assert "10" not in app.check(tally).split(";")[0], "the base raised"


def read_at_end(folder: Path, status: int | None = 0, repeats: int = 0) -> Any:
    (folder / "log.txt").touch()
    return read(folder, status, repeats)


def test_who_waits_for_a_note_that_is_being_written_finds_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    noted = notes.Notes(tmp_path)
    add, found = noted._add, []

    def note_and_read() -> None:
        noted.ended(1, "result", None)
        found.extend(notes.ended(tmp_path))

    def add_slowly(*line: Any) -> None:
        other.start()
        other.join(0.2)  # returns early if `other` does not wait for this thread
        add(*line)

    other = threading.Thread(target=note_and_read)
    monkeypatch.setattr(noted, "_add", add_slowly)
    noted.ended(1, "result", None)
    other.join()
    assert found == [1]


def test_an_application_none_of_whose_tasks_fails_in_the_end_has_its_result(
    tmp_path: Path,
) -> None:
    backend = Gristmill(loss_retries=3).open()
    tally: Tally = failing("worker-killed").run(Engine(backend), tmp_path)
    backend.shutdown()
    assert tally.error is None
    assert (tally.injected, tally.recovered, tally.executions) == (1, 1, 11)
    assert failing("worker-killed").check(tally) == (
        "synthetic: bag of 10 tasks; worker-killed in 1 of 10 tasks, 1 recovered; 0 others lost"
    )
    assert judge(read_at_end(tmp_path, repeats=3)).word is Word.RECOVERED


def test_a_task_may_fail_every_time(tmp_path: Path) -> None:
    backend = Gristmill(loss_retries=1).open()
    tally: Tally = failing("worker-killed", attempts="all").run(Engine(backend), tmp_path)
    backend.shutdown()
    assert (tally.recovered, tally.executions) == (0, 11)
    assert judge(read_at_end(tmp_path, repeats=1)).word is Word.REPORTED


def test_a_lost_worker_is_reported_once_by_ours_and_breaks_a_pool(tmp_path: Path) -> None:
    words = {}
    for plugin in (Gristmill(), Processes()):
        folder = tmp_path / type(plugin).__name__
        folder.mkdir()
        backend = plugin.open()
        failing("worker-killed", config={"tasks": 10, "sleep": 0.001}).run(Engine(backend), folder)
        backend.shutdown()
        words[type(plugin)] = judge(read_at_end(folder)).word
    assert words == {Gristmill: Word.REPORTED, Processes: Word.BROKEN}


@pytest.mark.slow
def test_a_task_that_never_ends_is_ended_by_an_executor_that_is_told_so(tmp_path: Path) -> None:
    # The limit applies to all tasks: it is long, so that the other tasks keep within it on a busy machine.
    app = failing("timeout", timeout_s=4)
    backend = Gristmill().limited(app.task_timeout()).open()
    tally: Tally = app.run(Engine(backend), tmp_path)
    backend.shutdown()
    assert (tally.injected, tally.lost) == (1, 0)
    found = read_at_end(tmp_path)
    assert found.injected[0].error.startswith("TaskTimeoutError: ")
    assert judge(found).word is Word.REPORTED


def test_only_executors_that_end_tasks_are_told_when_to() -> None:
    assert failing("failure").task_timeout() is None
    assert failing("random").task_timeout() == 2.0
    assert Gristmill().limited(None).model_dump() == Gristmill().model_dump()
    assert Gristmill(task_timeout=5.0).limited(2.0) == Gristmill(task_timeout=5.0)
    assert Gristmill().limited(2.0) == Gristmill(task_timeout=2.0)
    assert Processes().limited(2.0) == Processes()


@pytest.mark.slow
@pytest.mark.parametrize("words", [["--executor", "threads"], ["--executor", "htex"]])
def test_parsl_ends_tasks_by_its_walltime(
    words: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    missing = find("executor", "parsl").missing()
    if missing is not None:
        pytest.skip(missing)
    chosen = ["--executor", "parsl", "--executor.executor", words[1]]
    folder, summary = run(tmp_path, capsys, "--app.type", "timeout", *chosen)
    assert summary["figures"]["lost_tasks"] == 0
    assert read(folder, 0, 0).injected[0].error.startswith("AppTimeout")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("executor", "word"),
    [("dask", Word.RECOVERED), ("ray", Word.RECOVERED), ("loky", Word.BROKEN)],
)
def test_a_peer_that_loses_a_worker_is_judged_by_what_it_leaves(
    executor: str, word: Word, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    need_namespaces()
    plugin = find("executor", executor)
    missing = plugin.missing()
    if missing is not None:
        pytest.skip(missing)
    words = ["--executor", executor, "--app.type", "worker-killed", "--run.apart", "true"]
    folder, _ = run(tmp_path, capsys, *words)
    assert issubclass(plugin, ExecutorPlugin)
    assert judge(read(folder, 0, plugin().loss_repeats())).word is word


@pytest.mark.slow
@pytest.mark.parametrize(
    "executor", ["gristmill", pytest.param("processes", marks=pytest.mark.slow)]
)
def test_the_manager_of_workers_is_killed(
    executor: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    need_namespaces()
    words = ["--app.type", "manager-killed", "--executor", executor]
    folder, summary = run(tmp_path, capsys, *words)
    assert summary["figures"]["recovered_tasks"] == 0
    (failed,) = read(folder, 0, 0).injected
    assert names_cause(failed)
    course = notes.course(folder)
    assert course is not None
    assert (course.probe == "") == (executor == "gristmill"), "ours works on"


def test_the_same_tasks_fail_for_the_same_seed_and_as_many_as_asked_for() -> None:
    plan = Plan(FAILURE_KINDS, 0.1, 7, 1)
    drawn = [plan.draw(number) for number in range(1_000)]
    assert drawn == [Plan(FAILURE_KINDS, 0.1, 7, None).draw(number) for number in range(1_000)]
    assert drawn != [Plan(FAILURE_KINDS, 0.1, 8, 1).draw(number) for number in range(1_000)]
    assert all(any(drawn[first : first + 10]) for first in range(0, 1_000, 10))
    assert set(drawn) == {None, *FAILURE_KINDS}
    for rate in (0.01, 0.3, 0.75, 1.0):
        shared = sum(Plan(("failure",), rate, 1, 1).draw(one) is not None for one in range(1_000))
        assert shared == pytest.approx(1_000 * rate, rel=0.05)


def test_threads_that_run_out_of_files_at_once_leave_the_limit_as_it_was() -> None:
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    scene = Scene(program=os.getpid(), may_die=False, memory_size=0, fence=None)

    def run_out() -> None:
        for number in range(10):
            with pytest.raises(OSError, match="Too many open files"):
                fail("ulimit", number, scene)

    try:
        with ThreadPoolExecutor(4) as threads:
            for one in [threads.submit(run_out) for _ in range(4)]:
                one.result()
        assert resource.getrlimit(resource.RLIMIT_NOFILE) == before
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, before)


def test_executions_are_counted_for_every_caller(tmp_path: Path) -> None:
    failing("failure").run(Engine(Inline().open()), tmp_path)
    assert executions(tmp_path) == dict.fromkeys(range(10), 1)


def test_what_depends_on_a_task_that_failed_is_lost_with_it(tmp_path: Path) -> None:
    app = failing("failure", config={"structure": "sequence", "tasks": 10}, seed=3)
    tally: Tally = app.run(Engine(Inline().open()), tmp_path)
    (failed,) = read_at_end(tmp_path).injected
    assert tally.lost == 9 - failed.number
    found = read_at_end(tmp_path)
    assert not [task for task in found.others[failed.number :] if task.executions]
    assert str(judge(found)).startswith(f"reported: {tally.lost} other"), (
        "the executor is not to blame"
    )


def test_a_base_that_cannot_be_run_says_so_itself(tmp_path: Path) -> None:
    app = Failures(base="mapreduce", config={"text": str(tmp_path / "nowhere")})
    with pytest.raises(Exception, match="there are no files of text"):
        app.run(Engine(Inline().open()), tmp_path)


@pytest.mark.parametrize(
    ("words", "says"),
    [
        ([], "app.base: Field required"),
        (["--app.base", "failures"], "the base has to be another application"),
        (["--app.base", "fob"], "there is no app 'fob'"),
        (["--app.base", "fib", "--app.config.m", "3"], "app.m: Extra inputs are not permitted"),
        (["--app.base", "fib", "--app.type", "bad-luck"], "app.type"),
        (["--app.base", "fib", "--app.rate", "2"], "app.rate: Input should be less"),
        (["--app.base", "fib", "--app.config", "3", "--app.config.n", "3"], "config has a value"),
    ],
)
def test_what_cannot_be_made_to_fail_is_refused_with_words(
    words: list[str], says: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["bench", "run", "--app", "failures", "--executor", "inline", *words]) == 2
    assert says in capsys.readouterr().err


def test_fields_of_the_base_are_merged_and_written_down() -> None:
    words = ["--app.base", "synthetic", "--app.config.tasks", "5", "--app.config.in-flight=2"]
    file = {"app": {"name": "failures", "base": "synthetic", "config": {"size": 7, "tasks": 9}}}
    whole = resolve(merge(file, fields_of(words), {"executor": {"name": "inline"}}))
    assert isinstance(whole.app, Failures)
    assert whole.app.config == Synthetic(tasks=5, in_flight=2, size=7).model_dump()
    assert "in_flight = 2" in whole.to_toml()
    other = merge(file, {"app": {"base": "fib"}})["app"]
    assert other == {"name": "failures", "base": "fib"}, "another base takes nothing over"


def test_every_executor_says_how_often_it_repeats_what_was_lost() -> None:
    plugins: list[ExecutorPlugin] = [Gristmill(), Gristmill(loss_retries=3), Processes()]
    assert [plugin.loss_repeats() for plugin in plugins] == [0, 3, 0]
