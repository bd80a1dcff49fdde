"""Parsl's kernel over workers that it reaches directly. HTEX has as many workers as were requested."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path
from typing import Any

import pytest

from gristmill_bench.errors import BenchError
from gristmill_bench.executors import parsl_kernels
from gristmill_bench.executors.direct import DirectExecutor
from gristmill_bench.executors.parsls import Parsl
from gristmill_bench.plugins import find, make

pytestmark = pytest.mark.skipif(
    find("executor", "parsl").missing() is not None, reason="pip install parsl"
)


@pytest.fixture(autouse=True)
def _found_by_workers(monkeypatch: pytest.MonkeyPatch) -> None:
    """Lets the workers' interpreters import this module."""
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).parent))


def half(number: Any) -> float:
    return float(number / 2)


def count_up() -> object:
    """Returns a value that cannot be sent."""
    return (number for number in range(3))


class Torn(Exception):
    """An error that the receiver cannot unpickle: only its text travels."""

    def __init__(self, what: str, why: str) -> None:
        super().__init__(f"{what}: {why}")


def tear() -> None:
    raise Torn("paper", "wet")


def die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def meet(folder: str, workers: int) -> int:
    """Waits until this many workers run this function."""
    Path(folder, str(os.getpid())).touch()
    while len(os.listdir(folder)) < workers:
        time.sleep(0.001)
    return os.getpid()


@pytest.mark.slow
@pytest.mark.parametrize("queues", ["one", "each"])
def test_tasks_go_to_workers_directly_and_all_of_these_work(queues: Any, tmp_path: Path) -> None:
    backend = Parsl(workers=2, executor="direct", queues=queues).open()
    try:
        met = [backend.submit(meet, str(tmp_path), 2) for _ in range(2)]
        assert len({task.result(60) for task in met}) == 2
        first = backend.submit(half, 8)
        assert backend.submit(half, first).result(60) == 2
        assert isinstance(backend.submit(half, "none").exception(60), TypeError)
        assert "generator" in str(backend.submit(count_up).exception(60))
    finally:
        backend.shutdown()


@pytest.mark.slow
def test_a_direct_worker_that_is_killed_ends_all_tasks_and_blocks_no_waiter() -> None:
    backend = Parsl(workers=2, executor="direct").open()
    try:
        assert backend.submit(half, 8).result(60) == 4
        assert "a worker has ended" in str(backend.submit(die).exception(60))
        assert "a worker has ended" in str(backend.submit(half, 1).exception(60))
    finally:
        backend.shutdown()


@pytest.mark.slow
def test_a_result_that_cannot_be_read_fails_its_task_and_no_other() -> None:
    backend = Parsl(workers=1, executor="direct").open()
    try:
        assert isinstance(backend.submit(tear).exception(60), TypeError)
        assert backend.submit(half, 8).result(60) == 4
    finally:
        backend.shutdown()


@pytest.mark.slow
def test_a_task_that_was_sent_to_direct_workers_is_not_taken_back(tmp_path: Path) -> None:
    executor = DirectExecutor(1)
    executor.start()
    try:
        first, second = (executor.submit(half, {}, number) for number in (8, 6))
        assert not second.cancel()
        assert (first.result(60), second.result(60)) == (4, 3)
    finally:
        executor.shutdown()


@pytest.mark.slow
def test_htex_has_more_workers_than_cores_if_it_was_asked_for_them() -> None:
    workers = (os.cpu_count() or 1) + 1
    backend: Any = Parsl(workers=workers).open()
    try:
        assert backend.submit(half, 8).result(60) == 4
        (manager,) = backend.kernel.executors["htex"].connected_managers()
        assert manager["worker_count"] == workers
    finally:
        backend.shutdown()


def test_a_queue_for_each_worker_is_for_direct_ones() -> None:
    with pytest.raises(BenchError, match="the workers of htex share a queue: executor direct"):
        make("executor", "parsl", {"queues": "each"})


def test_the_file_of_a_kernels_log_is_closed_at_its_end() -> None:
    kernel = parsl_kernels.Kernel("parsl", lambda _: parsl_kernels.threads(1), logs=True)
    (file,) = kernel._log_files
    assert file.stream is not None
    kernel.shutdown()
    assert file.stream is None
