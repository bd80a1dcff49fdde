"""Jobs of a real Slurm that begin, drain and end while a program of ours runs."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from cluster import Cluster, Process, until
from placing import surroundings
from slurm import Slurm
from stage import Gate

pytest.importorskip("parsl.version")

_PROGRAM = Path(__file__).with_name("blocks.py")


def start(cluster: Cluster, slurm: Slurm, folder: Path, *words: str) -> Process:
    """Starts the program at the login end."""
    return cluster.login.start(
        [sys.executable, _PROGRAM, *words],
        env=surroundings(slurm.environment),
        cwd=folder,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )


def finish(program: Process) -> str:
    """Waits for the program's success; returns its output."""
    printed, _ = program.communicate()
    print(printed)
    assert program.wait() == 0
    return printed


def test_tasks_are_run_once_however_often_the_walltime_of_a_job_ends(
    nodes: Cluster, slurm: Slurm, folder: Path
) -> None:
    folders = {blocks: folder / str(blocks) for blocks in (1, 2)}
    for one in folders.values():
        one.mkdir()
    # Both programs run at the same time: each waits for a walltime of a minute, the shortest that Slurm has.
    programs = {
        blocks: start(nodes, slurm, one, "outlive", str(one), str(blocks))
        for blocks, one in folders.items()
    }
    for blocks, program in programs.items():
        ran = dict(word.split(":") for word in finish(program).split())
        assert len(ran) > blocks
        begun = [int(line) for line in (folders[blocks] / "begun").read_text().splitlines()]
        assert sorted(begun) == list(range(sum(map(int, ran.values()))))
        first = [state(slurm, job) for job in list(ran)[:blocks]]
        assert first == ["COMPLETED"] * blocks, "Slurm had to end none of them"
    until(lambda: not slurm.jobs())


def told(program: Process) -> str:
    """Returns the next line that the program prints."""
    assert program.stdout is not None
    return program.stdout.readline().strip()


def go_on(program: Process, slurm: Slurm) -> None:
    """Lets the program submit tasks while it has no job."""
    assert told(program) == "ready"
    assert not slurm.jobs()
    assert program.stdin is not None
    program.stdin.write("\n")
    program.stdin.flush()


def state(slurm: Slurm, job: str) -> str:
    """Returns the state of a job that may have ended."""
    words = slurm.run(["scontrol", "--oneliner", "show", "job", job]).stdout.split()
    return next(word.partition("=")[2] for word in words if word.startswith("JobState="))


def test_tasks_of_a_job_that_is_cancelled_finish(
    nodes: Cluster, slurm: Slurm, folder: Path, gate: Gate
) -> None:
    with start(nodes, slurm, folder, "rest", gate.path, "simple") as program:
        go_on(program, slurm)
        gate.wait_entered()
        gate.wait_entered()
        jobs = slurm.jobs()
        victim = min(jobs)
        slurm.run(["scancel", victim])
        # By then Slurm has signalled every process of the job.
        until(lambda: slurm.jobs()[victim] == "COMPLETING")
        gate.close()
        assert {told(program), told(program)} == jobs.keys()
        until(lambda: not slurm.jobs())
        go_on(program, slurm)
        assert told(program) not in jobs
        finish(program)
    until(lambda: not slurm.jobs())


@pytest.mark.parametrize("strategy", ["simple", "htex_auto_scale"])
def test_jobs_come_with_tasks_and_idle_ones_go(
    nodes: Cluster, slurm: Slurm, folder: Path, gate: Gate, strategy: str
) -> None:
    with start(nodes, slurm, folder, "rest", gate.path, strategy) as program:
        go_on(program, slurm)
        gate.wait_entered()
        gate.wait_entered()
        both = slurm.jobs()
        assert len(both) == 2
        gate.open()
        idle = told(program)
        busy = (both.keys() - {idle}).pop()
        if strategy == "htex_auto_scale":
            until(lambda: slurm.jobs().keys() == {busy})
        gate.open()
        assert told(program) == busy, "the other task was not disturbed"
        until(lambda: not slurm.jobs())
        go_on(program, slurm)
        gate.wait_entered()
        (new,) = slurm.jobs()
        assert new not in both
        gate.open()
        assert told(program) == new
        finish(program)
    until(lambda: not slurm.jobs())
