"""Groups of workers: some are slower, by a limit of their processor time. Each task records the group of its worker."""

from __future__ import annotations

import json
import multiprocessing
import os
import subprocess
import sys
import time
from collections import Counter
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from pathlib import Path
from time import perf_counter, process_time

import pytest

from gristmill import instruments
from gristmill._cli import main
from gristmill_bench import BenchError, RunFailed, apart, call, run_names, start
from gristmill_bench.config import resolve
from gristmill_bench.executors import cgroups
from gristmill_bench.executors.groups import Entry, Group, GroupedExecutor
from gristmill_bench.executors.ours import Gristmill
from gristmill_bench.executors.parsls import GristmillParsl
from gristmill_bench.executors.pools import Processes
from gristmill_bench.plugins import find, make, names

from apart_runs import need_namespaces

#: Real runs that take seconds: ./dev suite runs all of them.
pytestmark = pytest.mark.slow

PAIR = (Group(name="fast"), Group(name="slow", speed=0.1))
#: Processor time that a task takes, seconds.
WORK_S = 0.05
FORK = multiprocessing.get_context("fork")


def limited() -> None:
    """Skips a test where no control group with a limit can be made."""
    try:
        cgroups.remove(cgroups.make(0, 0.5))
    except BenchError as error:
        pytest.skip(str(error))


def compute(meeting: Path, number: int) -> tuple[float, str]:
    """Computes once all workers have begun; returns the elapsed seconds and the control groups of the process."""
    (meeting / str(number)).touch()
    while len(list(meeting.iterdir())) < len(PAIR):
        time.sleep(0.001)
    begun, end = perf_counter(), process_time() + WORK_S
    while process_time() < end:
        pass
    return perf_counter() - begun, Path("/proc/self/cgroup").read_text()


@pytest.mark.parametrize(
    "plugin",
    [
        pytest.param(Gristmill, id="gristmill"),
        pytest.param(Processes, id="processes"),
    ],
)
def test_a_slow_group_gets_its_share_and_a_fast_one_is_left_alone(
    plugin: type[GroupedExecutor], tmp_path: Path
) -> None:
    limited()
    backend = plugin(workers=2, groups=PAIR).open()
    try:
        found = [backend.submit(compute, tmp_path, number) for number in range(2)]
        results = [future.result(60) for future in found]
    finally:
        backend.shutdown()
    slow = [took for took, places in results if run_names.PREFIX in places]
    assert len(slow) == 1, "the fast worker is in no group with a limit"
    # A tenth of a processor, minus the share that the kernel grants in advance.
    assert slow[0] > WORK_S / 0.1 * 0.7
    assert not [folder for parent, _ in cgroups.parents() for folder in mine(parent)]


def mine(parent: Path) -> list[Path]:
    return list(parent.glob(f"{run_names.PREFIX}-*-{os.getpid()}-*"))


def stand(entry: Entry, sink: Connection) -> None:
    """Enters the group as a worker does, reports the group, and stays."""
    try:
        entry()
    except RuntimeError as error:
        sink.send(str(error))
        return
    sink.send(call.group)
    sink.recv()


def worker(entry: Entry) -> tuple[BaseProcess, Connection, str]:
    """Starts a worker; returns it, the connection to it, and its report."""
    ours, theirs = FORK.Pipe()
    process = FORK.Process(target=stand, args=(entry, theirs))
    process.start()
    return process, ours, ours.recv()


def test_a_worker_takes_the_place_of_one_that_died_and_no_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("gristmill_bench.executors.groups._PLACE_PATIENCE_S", 0.0)
    (tmp_path / "places").touch()
    entry = Entry(str(tmp_path / "places"), [("left", None), ("right", None)])
    left, right = worker(entry), worker(entry)
    assert (left[2], right[2]) == ("left", "right")
    third = worker(entry)
    assert third[2] == "there are more workers than places: 2"
    left[0].kill()
    left[0].join()
    fourth = worker(entry)
    assert fourth[2] == "left"
    for process, _, _ in (right, third, fourth):
        process.kill()
        process.join()


def test_each_task_says_the_group_of_its_worker(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    groups = [{"name": "a", "workers": 1}, {"name": "b", "workers": 2}]
    words = ["--app", "synthetic", "--app.tasks", "300", "--executor", "gristmill-parsl"]
    words += ["--executor.groups", json.dumps(groups), "--run.folder", str(tmp_path)]
    assert main(["bench", "run", *words]) == 0
    folder = Path(capsys.readouterr().out.splitlines()[-1])
    lines = [json.loads(one) for one in (folder / "tasks.jsonl").read_text().splitlines()]
    workers = {(one["execution"]["group"], one["execution"]["process"]) for one in lines}
    assert Counter(group for group, _ in workers)["b"] <= 2
    assert {group for group, _ in workers} <= {"a", "b"}
    assert "workers = 3\n" in (folder / "config.toml").read_text()


def test_without_groups_nothing_is_said_of_them(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["--app", "fib", "--app.n", "3", "--executor", "inline"]
    assert main(["bench", "run", *words, "--run.folder", str(tmp_path)]) == 0
    folder = Path(capsys.readouterr().out.splitlines()[-1])
    assert "group" not in (folder / "tasks.jsonl").read_text()


@pytest.mark.parametrize(
    ("groups", "says"),
    [
        ([{"name": "a"}, {"name": "a"}], "there are two groups 'a'"),
        ([{"name": "a", "speed": 0}], "greater than or equal to 0.01"),
        ([{"name": "a", "workers": 0}], "greater than or equal to 1"),
        ([{"name": ""}], "at least 1 character"),
        (3, "executor.groups: Input should be a valid tuple"),
    ],
)
def test_groups_that_make_no_sense_are_refused(groups: object, says: str) -> None:
    with pytest.raises(BenchError, match=says):
        make("executor", "processes", {"groups": groups})


def test_groups_and_workers_have_to_agree() -> None:
    with pytest.raises(BenchError, match="groups have 1 workers, and the executor 3"):
        make("executor", "processes", {"groups": [{"name": "a"}], "workers": 3})


@pytest.mark.parametrize("name", names("executor"))
def test_every_executor_has_groups_or_says_why_not(name: str) -> None:
    plugin = find("executor", name)
    if issubclass(plugin, GroupedExecutor):
        return
    with pytest.raises(ValueError, match=r"its workers cannot be in groups: .+ .+"):
        plugin.model_validate({"groups": [{"name": "a"}]})


def test_where_no_control_group_can_be_made_the_reason_is_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cgroups, "parents", lambda: iter([(tmp_path, 2)]))
    with pytest.raises(BenchError, match=r"none can be made here: .*: No such file"):
        GristmillParsl(workers=2, groups=PAIR).open()
    assert not list(tmp_path.iterdir())


def test_version_2_is_told_how_much_of_which_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def mkdir(folder: Path) -> None:
        os.mkdir(folder)
        (folder / "cpu.max").touch()

    monkeypatch.setattr(cgroups, "parents", lambda: iter([(tmp_path, 2)]))
    monkeypatch.setattr(Path, "mkdir", mkdir)
    assert (cgroups.make(0, 0.2) / "cpu.max").read_text() == "2000 10000"
    assert (cgroups.make(1, 0.01) / "cpu.max").read_text() == "1000 100000", "1 ms at least"


LEFT = """
import os, signal
from gristmill_bench.executors import cgroups
print(cgroups.make(0, 0.5), flush=True)
os.kill(os.getpid(), signal.SIGKILL)
"""


def test_what_a_killed_run_has_left_is_removed_after_a_run_with_groups(tmp_path: Path) -> None:
    limited()
    ended = subprocess.run(
        [sys.executable, "-c", LEFT], capture_output=True, text=True, check=False
    )
    left = Path(ended.stdout.strip())
    assert left.is_dir()
    words = ["--app", "fib", "--app.n", "3", "--executor", "processes", "--executor.start", "fork"]
    words += ["--executor.groups", '[{"name": "a"}]', "--run.folder", str(tmp_path)]
    assert main(["bench", "run", *words]) == 0
    assert not left.exists()


def test_what_a_killed_run_in_namespaces_has_left_is_removed_after_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    limited()
    need_namespaces()
    left: list[Path] = []

    def run_until_killed(words: list[str], environment: dict[str, str]) -> int:
        command = [*apart.command([], tmp_path), sys.executable, "-c", LEFT]
        ended = subprocess.run(
            command, env=environment, capture_output=True, text=True, check=False
        )
        left.append(Path(ended.stdout.strip()))
        assert left[0].is_dir()
        return ended.returncode

    monkeypatch.setattr(instruments, "run_below", run_until_killed)
    monkeypatch.setattr(instruments, "last_line", lambda log: "killed")
    fields = {"name": "processes", "groups": [{"name": "a"}]}
    benchmark = resolve(
        {"app": {"name": "fib"}, "executor": fields, "run": {"folder": str(tmp_path)}}
    )
    with pytest.raises(RunFailed, match="killed"):
        start(benchmark)
    assert not left[0].exists()


def test_groups_are_written_down_so_that_a_run_can_be_repeated() -> None:
    tables = {"app": {"name": "fib"}, "executor": {"name": "pool", "groups": [{"name": "a"}]}}
    assert 'name = "a"' in resolve(tables).to_toml()
