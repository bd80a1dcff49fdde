"""Executors in each of their modes: ours on nodes, in batches and under both kernels; and executors that are not
installed.
"""

from __future__ import annotations

import importlib.util
import os
import signal
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from queue import SimpleQueue
from typing import Any

import pytest

import gristmill
from gristmill._cli import main
from gristmill_bench import BenchError
from gristmill_bench.executors.batches import Batches
from gristmill_bench.executors.ours import Gristmill
from gristmill_bench.executors.parsls import GristmillParsl, Parsl
from gristmill_bench.plugins import find, make

ENDPOINT = "6b8a2b1c-7a1f-4c9f-8f0e-0123456789ab"


def process(_number: int) -> int:
    return os.getpid()


def parent_of_parent(_number: int) -> int:
    """Returns the parent of the keeper: the program, or the agent of a node."""
    stat = Path(f"/proc/{os.getppid()}/stat").read_text()
    return int(stat.rpartition(")")[2].split()[1])


def meet(folder: Path, number: int, others: int) -> int:
    """Waits until this many tasks run at the same time; returns the process of its node agent or of the program."""
    (folder / str(number)).touch()
    while len(list(folder.iterdir())) < others:
        time.sleep(0.001)
    return parent_of_parent(number)


def half(number: int) -> float:
    return 1 / number


def die_once(flag: Path) -> str:
    if flag.exists():
        return "the second time"
    flag.touch()
    os.kill(os.getpid(), signal.SIGKILL)
    raise AssertionError("killed")


@pytest.mark.parametrize("executor", [Gristmill(nodes=2), GristmillParsl(nodes=2)])
def test_workers_are_shared_by_agents_on_this_machine(executor: Any, tmp_path: Path) -> None:
    backend = executor.open()
    try:
        found = [backend.submit(meet, tmp_path, number, 2) for number in range(2)]
        agents = {future.result(60) for future in found}
    finally:
        backend.shutdown()
    assert len(agents) == 2
    assert os.getpid() not in agents


@pytest.mark.parametrize("executor", [Gristmill(nodes=2), GristmillParsl(nodes=2)])
def test_nodes_that_do_not_come_end_the_run(executor: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gristmill_bench.executors.base._NODES_S", -1.0)
    with pytest.raises(BenchError, match="0 of 2 nodes were there after"):
        executor.open()


@pytest.mark.slow
@pytest.mark.parametrize("kernel", ["gristmill", "parsl"])
def test_blocks_of_htex_share_the_workers_of_either_kernel(kernel: Any) -> None:
    if find("executor", "parsl").missing():
        pytest.skip("pip install parsl")
    plugin = Parsl(nodes=2) if kernel == "parsl" else GristmillParsl(executor="htex", nodes=2)
    backend: Any = plugin.open()
    try:
        managers = backend.kernel.executors["htex"].connected_managers()
        assert sorted((one["block_id"], one["worker_count"]) for one in managers) == [
            ("0", 1),
            ("1", 1),
        ]
        assert backend.submit(os.path.basename, "folder/file").result(60) == "file"
    finally:
        backend.shutdown()


class Spy:
    """An executor that runs maps on request and records their sizes."""

    def __init__(self) -> None:
        self.sizes: list[int] = []

    def map(self, function: Any, calls: Any) -> Iterator[Any]:
        self.sizes.append(len(calls))
        return (function(call) for call in calls)

    def shutdown(self, wait: bool, *, cancel_futures: bool) -> None: ...


def test_calls_are_gathered_and_none_is_left() -> None:
    spy = Spy()
    batches = Batches(spy, 10)
    futures = [batches.submit(half, number) for number in range(25)]
    results = [future.exception(30) or future.result() for future in futures]
    batches.shutdown()
    assert isinstance(results[0], ZeroDivisionError), "one that raises ends no other"
    assert results[1:] == [1 / number for number in range(1, 25)]
    assert sum(spy.sizes) == 25
    assert max(spy.sizes) <= 10


def test_who_waits_for_a_gathered_call_waits_no_longer_than_asked() -> None:
    gate = threading.Event()
    batches = Batches(Spy(), 10)
    held = batches.submit(gate.wait, 60)
    with pytest.raises(TimeoutError):
        held.result(0)
    assert not held.done()
    assert not held.cancel()
    told: SimpleQueue[Any] = SimpleQueue()
    held.add_done_callback(lambda _: 1 / 0)
    held.add_done_callback(told.put)
    gate.set()
    assert told.get(timeout=30) is held, "a callback that raises harms no other"
    assert held.result() is True
    batches.shutdown()
    with pytest.raises(RuntimeError, match="after shutdown"):
        batches.submit(half, 1)


def test_a_map_that_cannot_be_sent_fails_its_calls_and_no_others() -> None:
    backend = Gristmill(batches=5).open()
    try:
        lost = backend.submit(half, threading.Lock())
        assert isinstance(lost.exception(30), Exception)
        assert backend.submit(half, 2).result(30) == 0.5
    finally:
        backend.shutdown()


def leave(number: int) -> int:
    """Ends its process for one number; returns for all others."""
    return number if number != 3 else sys.exit("left")


@pytest.mark.parametrize("batches", [0, 100])
def test_a_call_that_wants_to_end_its_worker_fails_alone(batches: int) -> None:
    backend = Gristmill(batches=batches).open()
    try:
        # The first call is sent at once; later calls are gathered meanwhile.
        futures = [backend.submit(leave, number) for number in range(20)]
        failed = [one for one, future in enumerate(futures) if future.exception(30) is not None]
        assert failed == [3]
        assert isinstance(futures[3].exception(), SystemExit)
    finally:
        backend.shutdown()


def stay_or_give(number: int) -> int:
    """Never ends for number 3; returns the number otherwise."""
    while number == 3:
        time.sleep(0.001)
    return number


@pytest.mark.slow
def test_a_call_of_a_batch_whose_time_is_over_fails_alone() -> None:
    # The limit applies to all calls: it is long, so that the other calls keep within it on a busy machine.
    backend = Gristmill(batches=100, task_timeout=4.0).open()
    try:
        futures = [backend.submit(stay_or_give, number) for number in range(20)]
        failed = [one for one, future in enumerate(futures) if future.exception(60) is not None]
        assert failed == [3]
        assert isinstance(futures[3].exception(), gristmill.TaskTimeoutError)
    finally:
        backend.shutdown()


def give_or_die_once(number: int, flag: Path) -> int:
    """Kills its worker at the first run of number 3; returns the number otherwise."""
    if number == 3:
        die_once(flag)
    return number


def test_a_call_of_a_batch_whose_worker_dies_runs_again(tmp_path: Path) -> None:
    backend = Gristmill(batches=100, loss_retries=3).open()
    try:
        futures = [
            backend.submit(give_or_die_once, number, tmp_path / "flag") for number in range(20)
        ]
        assert [future.result(60) for future in futures] == list(range(20))
    finally:
        backend.shutdown()


@pytest.mark.parametrize("kernel", ["gristmill", pytest.param("parsl", marks=pytest.mark.slow)])
def test_a_parsl_program_runs_on_either_kernel_over_our_executor(
    kernel: Any, tmp_path: Path
) -> None:
    if kernel == "parsl" and find("executor", "parsl").missing():
        pytest.skip("pip install parsl")
    backend = GristmillParsl(kernel=kernel, loss_retries=1).open()
    try:
        first = backend.submit(half, 4)
        assert backend.submit(half, first).result(60) == 4
        assert backend.submit(process, 0).result(60) != os.getpid()
        assert backend.submit(die_once, tmp_path / "flag").result(60) == "the second time"
    finally:
        backend.shutdown()


@pytest.mark.parametrize(
    ("name", "fields", "says"),
    [
        ("gristmill", {"workers": 4, "nodes": 3}, "4 workers cannot be shared equally by 3 nodes"),
        ("gristmill", {"batches": 20_000}, "executor.batches: Input should be less than or equal"),
        ("gristmill", {"threads": 0}, "executor.threads.constrained-int: Input should be greater"),
        ("gristmill-parsl", {"kernel": "dask"}, "executor.kernel: Input should be 'parsl' or"),
        ("gristmill-parsl", {"workers": 3, "nodes": 2}, "3 workers cannot be shared equally"),
    ],
)
def test_modes_that_make_no_sense_are_refused(name: str, fields: Any, says: str) -> None:
    with pytest.raises(BenchError, match=says):
        make("executor", name, fields)


@pytest.mark.parametrize(
    ("name", "fields", "says"),
    [
        ("parsl", {"workers": 4, "nodes": 3}, "4 workers cannot be shared equally by 3 nodes"),
        ("parsl", {"executor": "threads", "nodes": 1}, "executor threads has no nodes"),
        ("gristmill-parsl", {"executor": "htex", "start": "spawn"}, "start are for our executor"),
        (
            "gristmill-parsl",
            {"executor": "htex", "groups": [{"name": "all", "workers": 2}]},
            "groups, loss_retries and start are for our executor",
        ),
    ],
)
def test_modes_of_htex_that_make_no_sense_are_refused(name: str, fields: Any, says: str) -> None:
    if find("executor", "parsl").missing():
        pytest.skip("pip install parsl")
    with pytest.raises(BenchError, match=says):
        make("executor", name, fields)


def test_parsls_kernel_is_refused_where_there_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gristmill_bench.plugins._is_installed", lambda name: name != "parsl")
    with pytest.raises(BenchError, match="not available here: pip install parsl"):
        make("executor", "gristmill-parsl", {"kernel": "parsl"})
    with pytest.raises(BenchError, match="htex is not available here: pip install parsl"):
        make("executor", "gristmill-parsl", {"executor": "htex"})


@pytest.mark.parametrize(
    ("name", "way"),
    [
        ("taskvine", "conda install -c conda-forge ndcctools"),
        ("globus", "pip install globus-compute-sdk"),
        ("mpi", "pip install mpi4py"),
    ],
)
def test_what_is_not_here_is_listed_with_the_way_to_get_it_and_refused(
    name: str, way: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("gristmill_bench.plugins._is_installed", lambda _name: False)
    monkeypatch.setattr("gristmill_bench.executors.taskvine.find_spec", lambda _name: None)
    assert main(["bench", "list"]) == 0
    assert way in capsys.readouterr().out
    assert main(["bench", "run", "--app", "fib", "--executor", name]) == 2
    assert f"executor {name!r} is not available here: {way}" in capsys.readouterr().err


@pytest.mark.skipif(not importlib.util.find_spec("mpi4py"), reason="pip install mpi4py")
def test_mpi_without_a_library_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    mpi = importlib.import_module("gristmill_bench.executors.mpi")
    mpi.library_missing.cache_clear()
    monkeypatch.setenv("MPI4PY_LIBMPI", str(tmp_path / "libmpi.so"))
    assert "finds no MPI library" in str(mpi.Mpi.missing())
    mpi.library_missing.cache_clear()


@pytest.mark.slow
def test_mpi_that_cannot_spawn_ends_the_run_and_says_so(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    missing = find("executor", "mpi").missing()
    if missing is not None:
        pytest.skip(missing)
    words = ["--app", "fib", "--executor", "mpi", "--executor.workers", "1000"]
    words += ["--run.environment", '{"OMPI_MCA_rmaps_base_oversubscribe": "0"}']
    status = main(["bench", "run", *words, "--run.timeout", "60", "--run.folder", str(tmp_path)])
    said = capsys.readouterr().err
    if "Open MPI" not in str(*(one.read_text() for one in tmp_path.glob("*/log.txt"))):
        pytest.skip("not Open MPI, which counts cores")
    assert status == 2
    assert "MPI has not spawned 1000 workers" in said


@pytest.mark.parametrize(
    ("fields", "says"),
    [
        ({}, "executor.endpoint: Field required"),
        ({"endpoint": "mine"}, "executor.endpoint: Input should be a valid UUID"),
    ],
)
def test_globus_needs_an_endpoint(fields: Any, says: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gristmill_bench.plugins._is_installed", lambda _name: True)
    with pytest.raises(BenchError, match=says):
        make("executor", "globus", fields)


@pytest.mark.slow
def test_globus_without_a_login_says_so_before_it_connects(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    missing = find("executor", "globus").missing()
    if missing is not None:
        pytest.skip(missing)
    monkeypatch.setenv("GLOBUS_COMPUTE_USER_DIR", str(tmp_path / "nobody"))
    for name in ("GLOBUS_COMPUTE_CLIENT_ID", "GLOBUS_COMPUTE_CLIENT_SECRET"):
        monkeypatch.delenv(name, raising=False)
    words = ["--app", "fib", "--executor", "globus", "--executor.endpoint", ENDPOINT]
    assert main(["bench", "run", *words, "--run.folder", str(tmp_path)]) == 2
    assert "no user has logged in to Globus" in capsys.readouterr().err
