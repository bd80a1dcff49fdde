"""``gristmill bench``: a run from the command line, its folder, refused input, and third-party plug-ins."""

from __future__ import annotations

import json
import os
import select
import signal
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path
from typing import Any

import pytest

from gristmill._cli import main
from gristmill_bench.command import fields_of
from gristmill_bench.compare import table
from gristmill_bench.config import merge, resolve
from gristmill_bench.run import variables

FIB = ["bench", "run", "--app", "fib", "--app.n", "8", "--executor", "inline"]


def run(tmp_path: Path, capsys: pytest.CaptureFixture[str], *words: str) -> Path:
    """Runs the command with these words; returns the folder of the run."""
    assert main([*words, "--run.folder", str(tmp_path)]) == 0
    return Path(capsys.readouterr().out.splitlines()[-1])


def test_a_run_leaves_all_that_is_needed_to_run_it_again(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    first = run(tmp_path, capsys, *FIB, "--run.warmup=3")
    found = json.loads((first / "summary.json").read_text())
    assert (found["app"], found["executor"], found["tasks"]) == ("fib", "inline", 67)
    assert found["result"] == "fib(8) = 21"
    assert set(found["seconds"]) == {"open", "warm-up", "prepare", "run", "close"}
    counted = (found["seconds"][phase] for phase in ("open", "warm-up", "run", "close"))
    assert found["makespan"] == pytest.approx(sum(counted)), "what is prepared is not counted"
    assert len((first / "tasks.jsonl").read_text().splitlines()) == 67
    assert "cpu" in json.loads((first / "environment.json").read_text())
    again = run(tmp_path, capsys, "bench", "run", str(first / "config.toml"))
    assert again != first
    assert (again / "config.toml").read_bytes() == (first / "config.toml").read_bytes()


def test_a_run_is_in_a_process_with_the_variables_that_it_names(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = run(tmp_path, capsys, *FIB, "--run.environment", '{"OMP_NUM_THREADS": "1"}')
    captured = json.loads((folder / "environment.json").read_text())
    assert captured["variables"]["OMP_NUM_THREADS"] == "1"
    assert tomllib.loads((folder / "config.toml").read_text())["run"]["environment"] == {
        "OMP_NUM_THREADS": "1"
    }


def test_a_run_has_threads_as_it_is_told_whatever_the_caller_has(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("OMP_NUM_THREADS", "7")

    def variable(threads: int | str, **environment: str) -> str | None:
        executor = {"name": "inline", "threads": threads}
        tables = {"app": {"name": "fib"}, "executor": executor, "run": {"environment": environment}}
        again = resolve(tomllib.loads(resolve(tables).to_toml()))
        return variables(again).get("OMP_NUM_THREADS")

    assert variable(2) == "2"
    assert variable("unset") is None
    assert variable("unset", OMP_NUM_THREADS="3") == "3"


def test_a_run_that_does_not_end_is_ended_with_all_that_it_has_started(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["--app", "synthetic", "--app.sleep", "3600", "--executor", "processes"]
    words += ["--run.timeout", "1", "--run.environment", f'{{"GRISTMILL_MARK": "{tmp_path}"}}']
    assert main(["bench", "run", *words, "--run.folder", str(tmp_path)]) == 2
    assert "did not end within 1 s" in capsys.readouterr().err
    mark = f"GRISTMILL_MARK={tmp_path}".encode()
    assert not [one for one in Path("/proc").glob("[0-9]*/environ") if mark in _bytes_of(one)]


def _bytes_of(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError:
        return b""


#: A program that each interpreter of a run runs first: it reports its process and stays alive.
STAYS = """
import os, time
if os.path.basename(os.environ["TMPDIR"]).startswith("gb-"):
    with open(os.environ["GRISTMILL_TEST_TOLD"], "w") as file:
        file.write(str(os.getppid()))
    time.sleep(3600)
"""


@pytest.mark.usefixtures("interrupts")
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_a_command_that_is_ended_leaves_neither_processes_nor_temporary_files(
    number: signal.Signals, tmp_path: Path
) -> None:
    told, temporary = tmp_path / "told", tmp_path / "temporary"
    os.mkfifo(told)
    temporary.mkdir()
    (tmp_path / "sitecustomize.py").write_text(STAYS)
    variables = {"PYTHONPATH": str(tmp_path), "GRISTMILL_TEST_TOLD": str(told)}
    words = [*FIB, "--run.environment", json.dumps(variables), "--run.folder", str(tmp_path)]
    with subprocess.Popen(
        [sys.executable, "-m", "gristmill._cli", *words],
        env=os.environ | {"TMPDIR": str(temporary)},
        stderr=subprocess.PIPE,
    ) as command:
        between = os.pidfd_open(int(told.read_text()))
        assert list(temporary.iterdir())
        command.send_signal(number)
        said = command.communicate()[1]
    assert said == (b"gristmill bench: interrupted\n" if number == signal.SIGINT else b"")
    select.select([between], [], [])
    os.close(between)
    assert not list(temporary.iterdir())


def test_paths_are_those_of_where_it_was_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "texts").mkdir()
    (tmp_path / "texts" / "one.txt").write_text("a b a")
    monkeypatch.chdir(tmp_path)
    words = ["--app", "mapreduce", "--app.text", "texts", "--executor", "inline"]
    assert main(["bench", "run", *words]) == 0
    said = capsys.readouterr().out.splitlines()
    assert said[0].endswith("3 words in 1 files, 2 different ones")
    assert Path(said[-1]).parent == tmp_path / "runs"


def test_records_can_be_left_out(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = run(tmp_path, capsys, *FIB, "--records", "none")
    assert not (folder / "tasks.jsonl").exists()
    assert tomllib.loads((folder / "config.toml").read_text())["records"] == {"name": "none"}


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["--app", "fob"], "there is no app 'fob'; there are: blackscholes, cholesky,"),
        ([], "no application is named"),
        (["--app", "fib", "--app.n", "many"], "app.n: Input should be a valid integer"),
        (
            ["--app", "fib", "--app.m", "3"],
            "app.m: Extra inputs are not permitted (app 'fib' has: n)",
        ),
        (
            ["--app", "cholesky", "--app.size", "100", "--app.block", "30"],
            "blocks of 30 do not divide",
        ),
        (
            ["--app", "synthetic", "--app.structure", "reduce", "--app.in-flight", "2"],
            "in_flight is for a bag",
        ),
        (["--app", "fib", "--filter", "always"], "no transformer is named"),
        (["--app", "fib", "--filter.least", "3"], "filter.least is set, and no filter is named"),
        (["--app", "fib", "--engine.workers", "3"], "there is nothing called engine"),
        (["--app", "fib", "--executor.workers"], "--executor.workers has no value"),
        (
            ["--app", "fib", "--executor", "threads", "--executor.workers", "0"],
            "executor.workers: Input should be greater",
        ),
        (["--app", "fib", "--run.environment", "{"], "is no JSON"),
        (["--app", "fib", "--run.folder", "/dev/null"], "run.folder: "),
        (
            ["--app", "mapreduce", "--app.text", "/nowhere"],
            "there are no files of text in /nowhere",
        ),
        (["missing.toml"], "missing.toml: No such file"),
    ],
)
def test_what_cannot_be_run_is_refused_with_words(
    words: list[str],
    says: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["bench", "run", "--executor", "inline", *words]) == 2
    assert says in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["compare", "--executors", "inline,threads,inline"], "'inline' is named twice"),
        (["matrix", "--executors", "threads, threads"], "'threads' is named twice"),
        (["matrix", "--types", "failure,failure"], "'failure' is named twice"),
        (["matrix", "--executors", "threads,"], "a name is missing in 'threads,'"),
    ],
)
def test_what_is_named_twice_or_not_at_all_is_refused_before_anything_is_run(
    words: list[str],
    says: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["bench", *words]) == 2
    assert says in capsys.readouterr().err
    assert not any(tmp_path.iterdir())


@pytest.mark.slow
def test_executors_take_turns_and_are_compared_with_the_first(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["--executors", "threads,inline", "--repeats", "2", "--app", "fib", "--app.n", "5"]
    assert main(["bench", "compare", *words, "--run.folder", str(tmp_path)]) == 0
    *table, place = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in table] == ["executor", "threads", "inline"]
    runs = [Path(place) / f"{name}-{turn}" for turn in (0, 1) for name in ("threads", "inline")]
    begun = [(run / "environment.json").stat().st_mtime_ns for run in runs]
    assert begun == sorted(begun)
    found = json.loads((Path(place) / "comparison.json").read_text())
    assert [len(one) for one in found.values()] == [2, 2]


def test_a_run_that_fails_is_told_in_the_place_of_its_figures(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = [
        "--executors",
        "inline",
        "--repeats",
        "1",
        "--app",
        "mapreduce",
        "--app.text",
        "/nowhere",
    ]
    assert main(["bench", "compare", *words, "--run.folder", str(tmp_path)]) == 1
    assert "ended with 1" in capsys.readouterr().out


def one(seconds: float) -> dict[str, Any]:
    """Returns the summary of a run."""
    phases = dict.fromkeys(("open", "warm-up", "close"), 0.0) | {"run": seconds}
    return {"seconds": phases, "tasks_per_second": 1.0, "figures": {}}


@pytest.mark.parametrize(("runs", "sure"), [(1, "1, 0%"), (5, "5, 93%"), (6, "6, 95%")])
def test_bounds_are_called_as_sure_as_they_are(runs: int, sure: str) -> None:
    summaries = [one(float(seconds)) for seconds in range(1, runs + 1)]
    assert f"(1-{runs}; {sure})" in table({"a": summaries})


def test_runs_are_compared_with_those_of_the_same_turn() -> None:
    failed = {"error": "it has failed"}
    first = [failed, one(2.0), one(4.0)]
    lines = table(
        {"a": first, "b": [one(9.0), one(1.0), one(2.0)], "c": [one(1.0), failed, failed]}
    )
    ratios = [line.split(")")[1].split()[0] for line in lines.splitlines()[1:]]
    assert ratios == ["1", "0.5", "-"]


def test_an_executor_that_is_not_installed_says_how_it_would_be(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("gristmill_bench.plugins._is_installed", lambda name: name != "loky")
    assert main(["bench", "run", "--app", "fib", "--executor", "loky"]) == 2
    assert "executor 'loky' is not available here: pip install loky" in capsys.readouterr().err


def test_later_files_count_more_and_another_plugin_takes_nothing_over() -> None:
    first = {"app": {"name": "synthetic", "tasks": 10, "size": 5}, "executor": {"name": "inline"}}
    assert merge(first, {"app": {"tasks": 20}})["app"] == {
        "name": "synthetic",
        "tasks": 20,
        "size": 5,
    }
    assert merge(first, {"app": {"name": "fib"}})["app"] == {"name": "fib"}
    assert resolve(merge(first, {"app": {"name": "fib"}})).name("app") == "fib"


def test_fields_are_words_with_a_dot() -> None:
    words = ["--app.in-flight", "3", "--run.folder=x=y", "--app.text", "none", "--a.b", "[1, 2]"]
    assert fields_of(words) == {
        "app": {"in_flight": "3", "text": None},
        "run": {"folder": "x=y"},
        "a": {"b": [1, 2]},
    }


def test_all_plugins_are_listed_with_their_fields(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["bench", "list"]) == 0
    said = capsys.readouterr().out
    assert "patterns\n" in said, "it has to be set"
    for word in (
        "cholesky",
        "structure=bag, tasks=1000",
        "gristmill",
        "pickled-files",
        "json-lines",
        "object-size",
    ):
        assert word in said


THEIRS = """
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from gristmill_bench import (
    App, Engine, ExecutorPlugin, FilterPlugin, RecordsPlugin, TransformerPlugin, WrongResult
)


class Squares(App):
    count: int = 3

    def run(self, engine: Engine, folder: Any) -> list[int]:
        return list(engine.map(pow, range(self.count), [2] * self.count))

    def check(self, result: list[int]) -> str:
        if result != [number * number for number in range(self.count)]:
            raise WrongResult(f"{result} are no squares")
        return f"{len(result)} squares"


class OneThread(ExecutorPlugin):
    def open(self) -> Any:
        return ThreadPoolExecutor(1)


class Large(FilterPlugin):
    least: int = 0

    def __call__(self, value: Any) -> bool:
        return value >= self.least


class Boxes(TransformerPlugin):
    def open(self, folder: Any) -> Any:
        return Boxing(folder / "boxed.txt")


class Boxing:
    def __init__(self, file: Any) -> None:
        self.file = file
        self.boxed: list[Any] = []

    def transform(self, value: Any) -> Any:
        self.boxed.append(value)
        return (value,)

    def resolve(self, name: Any) -> Any:
        return name[0]

    def is_name(self, value: Any) -> bool:
        return isinstance(value, tuple)

    def close(self) -> None:
        self.file.write_text(repr(self.boxed))


class Names(RecordsPlugin):
    def open(self, folder: Any) -> Any:
        return Naming(open(folder / "names.txt", "w"))


class Naming:
    def __init__(self, file: Any) -> None:
        self.file = file

    def note(self, task: Any) -> None:
        self.file.write(f"{task.name} {task.number}\\n")

    def close(self) -> None:
        self.file.close()
"""


def wheel(folder: Path) -> Path:
    """Builds a distribution with a plug-in of each kind."""
    path = folder / "theirs-1.0-py3-none-any.whl"
    entries = (
        "[gristmill_bench.app]\nsquares = theirs:Squares\n"
        "[gristmill_bench.executor]\none-thread = theirs:OneThread\n"
        "[gristmill_bench.filter]\nlarge = theirs:Large\n"
        "[gristmill_bench.transformer]\nboxes = theirs:Boxes\n"
        "[gristmill_bench.records]\nnames = theirs:Names\n"
    )
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("theirs.py", THEIRS)
        archive.writestr(
            "theirs-1.0.dist-info/METADATA", "Metadata-Version: 2.1\nName: theirs\nVersion: 1.0\n"
        )
        archive.writestr(
            "theirs-1.0.dist-info/WHEEL",
            "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
        )
        archive.writestr("theirs-1.0.dist-info/entry_points.txt", entries)
        archive.writestr("theirs-1.0.dist-info/RECORD", "")
    return path


@pytest.mark.slow
def test_a_third_party_package_brings_plugins_by_being_installed(tmp_path: Path) -> None:
    site = tmp_path / "site"
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--no-index"]
    subprocess.run([*pip, "--target", str(site), str(wheel(tmp_path))], check=True)
    bench = [sys.executable, "-m", "gristmill._cli", "bench"]
    environment = os.environ | {"PYTHONPATH": str(site)}
    chosen = {"app": "squares", "executor": "one-thread", "filter": "large"}
    chosen |= {"transformer": "boxes", "records": "names"}
    words = [word for kind, name in chosen.items() for word in (f"--{kind}", name)]
    words += ["--app.count", "5", "--filter.least", "9", "--run.folder", str(tmp_path / "runs")]
    ended = subprocess.run(
        [*bench, "run", *words], env=environment, capture_output=True, text=True, check=False
    )
    assert ended.returncode == 0, ended.stderr
    assert "squares on one-thread: 5 squares" in ended.stdout
    (folder,) = (tmp_path / "runs").iterdir()
    assert (folder / "boxed.txt").read_text() == "[9, 16]"
    assert (folder / "names.txt").read_text() == "".join(f"pow {number}\n" for number in range(5))
    listed = subprocess.run(
        [*bench, "list"], env=environment, capture_output=True, text=True, check=False
    )
    assert listed.returncode == 0, listed.stderr
    assert "  boxes\n" in listed.stdout, "it says nothing about itself, and has nothing to set"
