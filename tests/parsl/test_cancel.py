"""Cancellation of apps' tasks, at every stage of their life."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from concurrent.futures import CancelledError, wait
from pathlib import Path
from typing import Any

import pytest

from gristmill import TaskInterrupted
from gristmill._native import INTERRUPT_SIGNAL
from gristmill.parsl import DataFlowKernel, bash_app, join_app, python_app
from gristmill.parsl._kernel.bash import run_command
from gristmill.parsl.dataflow.errors import DependencyError, JoinError

import calls
from stage import Gate, descent, text_of

enter = python_app(calls.enter)
same = python_app(calls.same)


@python_app
def enter_in_graph(path: str, parsl_resource_specification: Any = None) -> None:
    calls.enter(path)


@bash_app
def background(path: str, stderr: Any = None) -> str:
    """Returns a command that writes the process id of its child; neither of the two ends by itself."""
    return f"sleep 1000 & echo $! > {path}; cat {path}.never"


@join_app
def join(path: str) -> Any:
    return [enter(path), same(1)]


def test_a_task_that_waits_is_cancelled_and_never_runs(kernel: DataFlowKernel, gate: Gate) -> None:
    running = enter(gate.path)
    gate.wait_entered()
    waiting = enter(gate.path, same(running))
    assert not waiting.running()
    assert waiting.cancel()
    assert waiting.cancelled()
    assert waiting.task_status() == "cancelled"
    with pytest.raises(CancelledError):
        waiting.result()
    gate.open()
    running.result()


def test_what_depends_on_a_cancelled_task_fails(kernel: DataFlowKernel, gate: Gate) -> None:
    running = enter(gate.path)
    waiting = same(running)
    dependant = same([waiting])
    assert waiting.cancel()
    with pytest.raises(DependencyError) as failure:
        dependant.result()
    assert isinstance(failure.value.__cause__, CancelledError)
    assert f"task {waiting.tid}" in str(failure.value)
    gate.open()
    running.result()


def test_a_task_that_is_final_stays_what_it_is(kernel: DataFlowKernel) -> None:
    done = same(1)
    assert done.result() == 1
    assert not done.cancel()
    assert done.task_status() == "exec_done"


def test_a_running_thread_is_not_cancelled(make_kernel: Any, hold: Gate) -> None:
    running = python_app(calls.enter, data_flow_kernel=make_kernel("threads"))(hold.path, 5)
    hold.wait_entered()
    assert running.running()
    assert not running.cancel()
    hold.open()
    assert running.result() == 5


@pytest.mark.parametrize("app", [enter, enter_in_graph], ids=["by the engine", "by the graph"])
def test_a_task_that_runs_in_a_worker_is_interrupted(
    engine_only: DataFlowKernel, tmp_path: Path, gate: Gate, app: Any
) -> None:
    note = tmp_path / "note"
    options = {"parsl_resource_specification": {"priority": 1}} if app is enter_in_graph else {}
    quietly = python_app(calls.enter_quietly) if app is enter else app
    arguments = (gate.path, str(note)) if app is enter else (gate.path,)
    running = quietly(*arguments, **options)
    gate.wait_entered()
    assert running.running()
    assert not running.cancel(running=False)
    assert running.cancel()
    with pytest.raises(CancelledError):
        running.result()
    assert running.cancelled()
    assert not running.running()
    if app is enter:
        assert note.read_text() == "TaskInterrupted"


def test_a_task_that_ignores_the_interrupt_loses_its_worker(
    engine_only: DataFlowKernel, gate: Gate
) -> None:
    running = python_app(calls.enter_and_ignore)(gate.path)
    worker = gate.wait_entered()
    assert running.cancel(grace=0.01)
    wait([running])
    assert running.cancelled()
    with pytest.raises(ProcessLookupError):
        os.kill(worker, 0)


def test_a_cancelled_bash_app_takes_its_children_with_it(
    engine_only: DataFlowKernel, tmp_path: Path
) -> None:
    path = tmp_path / "child"
    os.mkfifo(path)
    os.mkfifo(f"{path}.never")
    running = background(str(path), stderr=os.devnull)
    child = int(path.read_text())
    assert running.cancel()
    wait([running])
    assert running.cancelled()
    _wait_until_gone(child)


def test_a_command_that_is_interrupted_while_it_starts_is_killed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    class Popen(subprocess.Popen[bytes]):
        """A process at whose start the signal arrives: it runs then, but its id is not known yet."""

        def __init__(self, *arguments: Any, **options: Any) -> None:
            super().__init__(*arguments, **options)
            os.kill(os.getpid(), INTERRUPT_SIGNAL)

    def interrupt(_signal: int, _frame: object) -> None:
        raise TaskInterrupted

    monkeypatch.setattr(subprocess, "Popen", Popen)
    before = signal.signal(INTERRUPT_SIGNAL, interrupt)
    try:
        with pytest.raises(TaskInterrupted):
            run_command(lambda: "sleep 1000")
        assert signal.getsignal(INTERRUPT_SIGNAL) is interrupt
    finally:
        signal.signal(INTERRUPT_SIGNAL, before)
    assert not [one for one in descent(os.getpid()) if "sleep 1000" in _command(one)]


def _command(process: int) -> str:
    return text_of(process, "cmdline").replace("\0", " ")


def _wait_until_gone(process: int) -> None:
    """Waits until the process is gone; the watchdog ends a wait that never succeeds."""
    while (stat := text_of(process, "stat")) and stat.rpartition(")")[2].split()[0] not in "ZX":
        time.sleep(0.001)


def test_a_join_app_is_cancelled_with_what_it_has_joined(
    engine_only: DataFlowKernel, gate: Gate
) -> None:
    joining = join(gate.path)
    gate.wait_entered()
    while joining.task_status() != "joining":
        time.sleep(0.001)
    assert joining.running()
    inner = joining.task_record["joins"][0]
    assert joining.cancel()
    assert joining.cancelled()
    wait([inner])
    assert inner.cancelled()


def test_a_join_app_whose_part_is_cancelled_fails(kernel: DataFlowKernel, gate: Gate) -> None:
    held = enter(gate.path)
    part = same(held)
    joining = join_app(lambda: part)()
    while joining.task_status() != "joining":
        time.sleep(0.001)
    assert part.cancel()
    with pytest.raises(JoinError) as failure:
        joining.result()
    assert isinstance(failure.value.__cause__, CancelledError)
    gate.open()
    held.result()


def test_a_file_of_a_cancelled_task_is_never_there(
    kernel: DataFlowKernel, gate: Gate, tmp_path: Path
) -> None:
    import gristmill.parsl as parsl

    held = enter(gate.path)
    writing = python_app(lambda value, outputs=(): value)(
        held, outputs=[parsl.File(str(tmp_path / "file"))]
    )
    (there,) = writing.outputs
    assert there.cancel()
    assert there.cancelled()
    assert isinstance(there.exception(), CancelledError)
    gate.open()
    held.result()
