"""A stopped task takes the programs with it that it started, and no others, when the interrupt suffices to end it."""

from __future__ import annotations

import contextlib
import os
import select
import signal
import time
from collections.abc import Callable, Iterator
from concurrent.futures import CancelledError
from pathlib import Path

import pytest

import gristmill
from gristmill import Executor, TaskTimeoutError, on

import calls
import started

MakeExecutor = Callable[..., Executor]
#: Time limit of a wait for an end, seconds: a watchdog.
WATCHDOG_S = 60


class Programs:
    """Programs that tasks have started, which do not outlive the test."""

    def __init__(self) -> None:
        self._handles: dict[int, int] = {}

    def watch(self, pid: int) -> int:
        self._handles[pid] = os.pidfd_open(pid)
        return pid

    def has_ended(self, pid: int, wait: bool) -> bool:
        """Returns whether the program has ended; waits for its end if ``wait`` is true. A zombie counts as ended."""
        poll = select.poll()
        poll.register(self._handles[pid], select.POLLIN)
        return bool(poll.poll(WATCHDOG_S * 1000 if wait else 0))

    def close(self) -> None:
        for handle in self._handles.values():
            with contextlib.suppress(ProcessLookupError):
                signal.pidfd_send_signal(handle, signal.SIGKILL)
            os.close(handle)


@pytest.fixture
def programs() -> Iterator[Programs]:
    made = Programs()
    yield made
    made.close()


def started_by(path: Path, programs: Programs, future: gristmill.Future) -> int:
    """Waits until the task has written which program it started; returns the program."""
    while not path.exists() or not path.read_text().endswith("\n"):
        assert not future.done(), future.exception()
        time.sleep(0.001)
    return programs.watch(int(path.read_text()))


def stop(future: gristmill.Future, how: str) -> None:
    if how == "cancel":
        assert future.cancel(running=True, grace=30)
        with pytest.raises(CancelledError):
            future.result()
    else:
        with pytest.raises(TaskTimeoutError):
            future.result()


def wait_until_older(program: int) -> None:
    """Waits until the kernel, which counts in ticks, can tell the program's start from the present."""
    fields = Path(f"/proc/{program}/stat").read_text().rpartition(")")[2].split()
    until = (int(fields[19]) + 3) / os.sysconf("SC_CLK_TCK")
    while time.clock_gettime(time.CLOCK_BOOTTIME) < until:
        time.sleep(0.001)


@pytest.mark.parametrize("how", ["cancel", "timeout"])
@pytest.mark.parametrize("way", [way for way in started.WAYS if way != "kept"])
def test_what_a_stopped_task_started_ends_and_its_worker_lives(
    make_executor: MakeExecutor, programs: Programs, tmp_path: Path, way: str, how: str
) -> None:
    executor = make_executor(1)
    worker = executor.submit(calls.pid).result()
    timeout = 1 if how == "timeout" else None
    path = tmp_path / "pid"
    future = executor.options(timeout=timeout, grace=30).submit(
        started.start_and_wait, str(path), way
    )
    program = started_by(path, programs, future)
    if way == "own environment":
        # The start time alone identifies this program: a program that began in the last tick before the task's end is
        # left.
        wait_until_older(program)
    stop(future, how)
    assert programs.has_ended(program, wait=True)
    assert executor.submit(calls.pid).result() == worker, "the interrupt was enough"


@pytest.mark.parametrize("way", [way for way in started.WAYS if way != "own environment"])
def test_what_earlier_and_later_tasks_started_lives(
    make_executor: MakeExecutor, programs: Programs, tmp_path: Path, way: str
) -> None:
    """This holds also within the 10 ms that are the resolution of the kernel's start times."""
    executor = make_executor(1)
    path = tmp_path / "pid"
    for _ in range(5):
        earlier = executor.submit(started.start, way)
        future = executor.options(grace=30).submit(started.start_and_wait, str(path), "program")
        others = [programs.watch(earlier.result())]
        program = started_by(path, programs, future)
        later = executor.submit(started.start, way)
        stop(future, "cancel")
        others.append(programs.watch(later.result()))
        assert programs.has_ended(program, wait=True)
        assert not any(programs.has_ended(other, wait=False) for other in others)
        path.unlink()


def test_what_another_worker_started_lives(
    make_executor: MakeExecutor, programs: Programs, tmp_path: Path
) -> None:
    executor = make_executor(2)
    paths = [tmp_path / "one", tmp_path / "other"]
    one, other = (
        executor.options(grace=30).submit(started.start_and_wait, str(path), "double fork")
        for path in paths
    )
    pids = [
        started_by(path, programs, future) for path, future in zip(paths, (one, other), strict=True)
    ]
    stop(one, "cancel")
    assert programs.has_ended(pids[0], wait=True)
    assert not programs.has_ended(pids[1], wait=False)
    stop(other, "cancel")
    assert programs.has_ended(pids[1], wait=True)


def test_a_program_that_asks_to_be_kept_lives(
    make_executor: MakeExecutor, programs: Programs, tmp_path: Path
) -> None:
    executor = make_executor(1)
    paths = [tmp_path / "kept", tmp_path / "program"]
    kept = executor.options(grace=30).submit(started.start_and_wait, str(paths[0]), "kept")
    pids = [started_by(paths[0], programs, kept)]
    stop(kept, "cancel")
    last = executor.options(grace=30).submit(started.start_and_wait, str(paths[1]), "program")
    pids.append(started_by(paths[1], programs, last))
    stop(last, "cancel")
    # The keeper handles its commands one after the other: the first one is done by now.
    assert programs.has_ended(pids[1], wait=True)
    assert not programs.has_ended(pids[0], wait=False)


def test_a_task_that_answers_the_interrupt_with_an_error_of_its_own(
    make_executor: MakeExecutor, programs: Programs, tmp_path: Path
) -> None:
    executor = make_executor(1)
    path = tmp_path / "pid"
    future = executor.options(grace=30).submit(started.start_and_ignore, str(path), "program")
    program = started_by(path, programs, future)
    future.cancel(running=True, grace=30)
    assert programs.has_ended(program, wait=True)


@pytest.mark.parametrize("how", ["cancel", "timeout"])
@pytest.mark.parametrize("nodes", [None, on.local(1, 1)], ids=["here", "node"])
def test_a_task_that_answers_the_interrupt_with_a_value(
    programs: Programs, tmp_path: Path, nodes: on.Placement | None, how: str
) -> None:
    path = tmp_path / "pid"
    with Executor(1, nodes=nodes) as executor:
        timeout = 1 if how == "timeout" else None
        future = executor.options(timeout=timeout, grace=30).submit(
            started.start_and_return, str(path), "session"
        )
        program = started_by(path, programs, future)
        stop(future, how)
        assert programs.has_ended(program, wait=True)


@pytest.mark.parametrize("workers", [1, 2])
def test_what_the_parent_of_a_stopped_task_started_lives(
    make_executor: MakeExecutor, programs: Programs, tmp_path: Path, workers: int
) -> None:
    executor = make_executor(workers)
    path = tmp_path / "pid"
    future = executor.submit(started.submit_child_that_waits, str(path), "program")
    program = started_by(path, programs, future)
    parents = programs.watch(int(Path(f"{path}.parent").read_text()))
    assert future.result() == "TaskTimeoutError"
    assert programs.has_ended(program, wait=True)
    assert not programs.has_ended(parents, wait=False)


@pytest.mark.parametrize("way", ["program", "double fork"])
def test_what_a_killed_worker_started_ends_too(
    make_executor: MakeExecutor, programs: Programs, tmp_path: Path, way: str
) -> None:
    executor = make_executor(1)
    path = tmp_path / "pid"
    future = executor.submit(started.start_and_wait, str(path), way)
    program = started_by(path, programs, future)
    future.cancel(running=True, grace=0)
    with pytest.raises(CancelledError):
        future.result()
    assert programs.has_ended(program, wait=True)


def test_what_a_stopped_task_of_a_node_started_ends(programs: Programs, tmp_path: Path) -> None:
    with Executor(1, nodes=on.local(1, 1)) as executor:
        path = tmp_path / "pid"
        future = executor.options(grace=30).submit(started.start_and_wait, str(path), "double fork")
        program = started_by(path, programs, future)
        stop(future, "cancel")
        assert programs.has_ended(program, wait=True)


@pytest.mark.parametrize("mode", ["direct", "fork"])
def test_what_a_stopped_call_in_a_context_started_ends(
    make_executor: MakeExecutor, programs: Programs, tmp_path: Path, mode: str
) -> None:
    context = gristmill.Context(dict, name="empty", calls=gristmill.ContextCalls(mode=mode))
    executor = make_executor(1)
    path = tmp_path / "pid"
    future = executor.options(context=context, grace=30).submit(
        started.start_and_wait, str(path), "daemon"
    )
    program = started_by(path, programs, future)
    stop(future, "cancel")
    assert programs.has_ended(program, wait=True)
