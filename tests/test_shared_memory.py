"""Shared memory of ``multiprocessing`` between a program and its tasks."""

from __future__ import annotations

import os
import time
from multiprocessing import resource_tracker
from multiprocessing.shared_memory import SharedMemory
from pathlib import Path

import pytest

from gristmill import Executor, WorkerLostError

from stage import Script

pytestmark = pytest.mark.interpreter


def first(name: str) -> int:
    block = SharedMemory(name=name)
    try:
        return block.buf[0]
    finally:
        block.close()


def made(value: int) -> str:
    block = SharedMemory(create=True, size=4096)
    block.buf[0] = value
    block.close()
    return block.name


def tracker() -> int | None:
    """Returns the process id of the tracker that this process has started itself."""
    resource_tracker.ensure_running()
    return resource_tracker._resource_tracker._pid  # type: ignore[attr-defined]


@pytest.mark.parametrize("start", ["fork", "spawn"])
def test_a_block_of_the_program_outlives_the_workers_that_opened_it(start: str) -> None:
    block = SharedMemory(create=True, size=4096)
    try:
        block.buf[0] = 7
        with Executor(1, max_tasks_per_child=1, start=start) as executor:
            assert [executor.submit(first, block.name).result() for _ in range(3)] == [7] * 3
        with Executor(1, start=start) as executor:
            assert executor.submit(first, block.name).result() == 7
            with pytest.raises(WorkerLostError):
                executor.submit(os._exit, 3).result()
            assert executor.submit(first, block.name).result() == 7
    finally:
        block.close()
        block.unlink()


def test_a_block_of_a_task_outlives_its_worker() -> None:
    with Executor(1, max_tasks_per_child=1) as executor:
        names = [executor.submit(made, value).result() for value in (1, 2)]
        assert [executor.submit(first, name).result() for name in names] == [1, 2]
    for name, value in zip(names, (1, 2), strict=True):
        block = SharedMemory(name=name)
        assert block.buf[0] == value
        block.close()
        block.unlink()


def test_workers_start_no_tracker_beside_the_programs() -> None:
    resource_tracker.ensure_running()
    with Executor(2) as executor:
        assert executor.submit(tracker).result() is None


def test_what_a_task_leaves_is_removed_when_the_worker_has_a_tracker_of_its_own(
    script: Script,
) -> None:
    printed = script.run(
        """
        import sys

        from gristmill import Executor

        def made():
            from multiprocessing.shared_memory import SharedMemory

            return SharedMemory(create=True, size=4096).name

        with Executor(1) as executor:
            print(executor.submit(made).result())
        assert "multiprocessing.resource_tracker" not in sys.modules
        """
    )
    # The tracker notices the end of the worker, and then removes the block.
    while Path("/dev/shm", printed.strip()).exists():
        time.sleep(0.001)


def test_what_a_task_leaves_is_removed_when_the_program_ends(script: Script) -> None:
    with script.start(
        """
        from multiprocessing.shared_memory import SharedMemory

        from gristmill import Executor

        def made():
            block = SharedMemory(create=True, size=4096)
            block.close()
            return block.name

        with Executor(1, max_tasks_per_child=1) as executor:
            print([executor.submit(made).result() for _ in range(2)][0])
        """
    ) as process:
        printed, errors = process.communicate()
    assert process.returncode == 0, errors
    assert not Path("/dev/shm", printed.strip()).exists()
    assert "2 leaked shared_memory objects" in errors, "the standard library says so"
