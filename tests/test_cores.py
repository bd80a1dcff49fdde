"""The cores that a program may use, by affinity mask and control group, and their division among executors."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from gristmill import Executor

import calls
from cgroups import group
from stage import Gate, Script

MakeExecutor = Callable[..., Executor]
CORES = len(os.sched_getaffinity(0))


@pytest.mark.parametrize("count", sorted({1, CORES}))
def test_one_worker_for_each_core_of_the_affinity(script: Script, count: int) -> None:
    printed = script.run(
        """
        import os, sys, gristmill
        os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:int(sys.argv[1])])
        print(gristmill.Executor()._max_workers)
        """,
        str(count),
    )
    assert int(printed) == count


QUOTA = """
    import os, sys
    open(sys.argv[1], "w").write(str(os.getpid()))
    import gristmill
    print(gristmill.Executor()._max_workers)
"""


@pytest.mark.parametrize(("quota_us", "workers"), [(50_000, 1), (100_000, 1), (-1, CORES)])
def test_one_worker_for_each_whole_core_of_the_groups_quota(
    script: Script, quota_us: int, workers: int
) -> None:
    with group("cpu", quota_us) as procs:
        assert int(script.run(QUOTA, str(procs))) == workers


@pytest.mark.parametrize(
    ("own", "above", "workers"),
    [
        ("100000 100000", "max 100000", 1),
        ("150000 100000", "max 100000", 1),
        ("1000 100000", "max 100000", 1),
        ("max 100000", "100000 100000", 1),
        ("max 100000", "max 100000", CORES),
        (f"{100_000 * CORES * 4} 100000", "max 100000", CORES),
        ("not a number", "max 100000", CORES),
    ],
)
def test_the_quota_of_version_2_and_of_the_groups_above(
    script: Script, tmp_path: Path, own: str, above: str, workers: int
) -> None:
    """The test shows one program a tree of control groups that consists of plain files."""
    if os.geteuid() != 0 or shutil.which("unshare") is None:
        pytest.skip("only root can show a program another tree of control groups, with unshare")
    inner = tmp_path / "tree" / "outer" / "inner"
    inner.mkdir(parents=True)
    for folder, limit in ((inner, own), (inner.parent, above), (inner.parent.parent, None)):
        (folder / "cgroup.controllers").write_text("cpu\n")
        if limit is not None:
            (folder / "cpu.max").write_text(limit + "\n")
    (tmp_path / "groups").write_text("0::/outer/inner\n")
    (tmp_path / "mounts").write_text("31 23 0:28 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n")
    printed = script.run(
        """
        import os, subprocess, sys
        if len(sys.argv) < 3:
            os.execvp("unshare", ["unshare", "--mount", sys.executable, *sys.argv, "inside"])
        folder = sys.argv[1]
        own = f"/proc/{os.getpid()}"
        targets = {"tree": "/sys/fs/cgroup", "groups": f"{own}/cgroup", "mounts": f"{own}/mountinfo"}
        for source, target in targets.items():
            subprocess.run(["mount", "--bind", f"{folder}/{source}", target], check=True)
        import gristmill
        print(gristmill.Executor()._max_workers)
        """,
        str(tmp_path),
    )
    assert int(printed) == workers


def test_each_worker_has_its_share_of_the_cores(make_executor: MakeExecutor) -> None:
    alone, many = make_executor(1), make_executor(CORES * 2)
    asked = make_executor(1, threads_per_worker=3)
    found = [executor.submit(calls.seen_threads).result() for executor in (alone, many, asked)]
    assert found == [str(CORES), "1", "3"]


def test_executors_with_a_share_each_run_at_the_same_time(
    make_executor: MakeExecutor, gate: Gate
) -> None:
    executors = [make_executor(1, threads_per_worker=1) for _ in range(3)]
    held = [executor.submit(calls.enter, gate.path, 1) for executor in executors]
    workers = {gate.wait_entered() for _ in executors}
    assert len(workers) == 3, "each runs one task, on a worker of its own"
    assert [executor.submit(calls.seen_threads).cancel() for executor in executors] == [True] * 3
    gate.open(3)
    assert [future.result() for future in held] == [1] * 3
    assert [executor.submit(calls.seen_threads).result() for executor in executors] == ["1"] * 3


def test_many_executors_on_one_core_come_to_an_end(script: Script) -> None:
    printed = script.run(
        """
        import os, gristmill
        os.sched_setaffinity(0, [min(os.sched_getaffinity(0))])
        executors = [gristmill.Executor() for _ in range(3)]
        futures = [executor.submit(int, n) for n in range(300) for executor in executors]
        print(sum(future.result() for future in futures))
        for executor in executors:
            print(sum(executor.map(int, range(300))))
        """
    )
    assert set(map(int, printed.split())) == {3 * 44850, 44850}
