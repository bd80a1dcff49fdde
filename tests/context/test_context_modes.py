"""Calls in forks of a context's worker, and contexts that are set up again for each call."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from gristmill import (
    Context,
    ContextCalls,
    ContextWorkers,
    Executor,
    TaskInterrupted,
    TaskTimeoutError,
    WorkerLostError,
)
from gristmill._context.calls import Forked
from gristmill._context.declare import with_reuse
from gristmill._native import INTERRUPT_SIGNAL

import calls
from setups import Log, load, open_and_close
from stage import Gate, lives

MakeExecutor = Callable[..., Executor]


def test_forked_calls_do_not_change_the_context(executor: Executor, log: Log) -> None:
    context = Context(load, log, calls=ContextCalls(mode="fork"))
    options = executor.options(context=context)

    def append() -> tuple[int, int]:
        context["model"].append(1)
        return len(context["model"]), os.getpid()

    results = [options.submit(append).result() for _ in range(3)]
    assert [length for length, _ in results] == [11, 11, 11]
    assert len({process for _, process in results}) == 3
    assert len(log.pids("load")) == 1


def test_a_forked_call_that_dies_leaves_its_worker_alone(
    make_executor: MakeExecutor, log: Log
) -> None:
    context = Context(load, log, calls=ContextCalls(mode="fork"))
    options = make_executor(1).options(context=context)
    parent = options.submit(os.getppid).result()
    with pytest.raises(
        WorkerLostError, match=r"ended by signal 9 \(SIGKILL\), perhaps because memory was short$"
    ):
        options.submit(lambda: os.kill(os.getpid(), signal.SIGKILL)).result()
    with pytest.raises(ZeroDivisionError):
        options.submit(lambda: 1 / 0).result()
    assert options.submit(os.getppid).result() == parent


def test_a_forked_call_that_leaves_a_child_behind_is_over(
    make_executor: MakeExecutor, log: Log, gate: Gate
) -> None:
    context = Context(load, log, calls=ContextCalls(mode="fork"))

    def leave_a_child() -> int:
        if os.fork() == 0:
            calls.enter(gate.path)
            os._exit(0)
        return 7

    options = make_executor(1).options(context=context)
    assert options.submit(leave_a_child).result() == 7
    gate.wait_entered()
    gate.open()


def test_a_forked_call_is_stopped_when_its_time_is_over(
    make_executor: MakeExecutor, log: Log
) -> None:
    context = Context(load, log, calls=ContextCalls(mode="fork"))
    executor = make_executor(1)
    parent = executor.options(context=context).submit(os.getppid).result()
    with pytest.raises(TaskTimeoutError):
        executor.options(context=context, timeout=0.1).submit(signal.pause).result()
    assert executor.options(context=context).submit(os.getppid).result() == parent


@pytest.mark.parametrize("reuse", ["none", "disk"])
def test_without_reuse_each_call_has_a_setup_of_its_own(
    executor: Executor, log: Log, reuse: str
) -> None:
    context = with_reuse(Context(open_and_close, log), reuse)
    options = executor.options(context=context)
    found = [options.submit(lambda: (context["maker"], os.getpid())).result() for _ in range(3)]
    assert all(maker == process for maker, process in found)
    assert log.pids("open") == log.pids("close") == [process for _, process in found]
    with pytest.raises(ZeroDivisionError):
        options.submit(lambda: 1 / 0).result()


@pytest.mark.parametrize("reuse", ["memory", "none"])
def test_a_teardown_that_raises_costs_no_result_and_names_its_context(
    make_executor: MakeExecutor, capfd: pytest.CaptureFixture[str], reuse: str
) -> None:
    def fail_late() -> Iterator[dict[str, int]]:
        yield {"number": 7}
        raise ValueError("still open")

    context = with_reuse(Context(fail_late, name="model"), reuse)
    executor = make_executor(1)
    assert executor.options(context=context).submit(lambda: context["number"]).result() == 7
    executor.shutdown()
    said = capfd.readouterr().err
    assert "still open" in said
    assert "the end of context 'model'" in said


@pytest.mark.slow
@pytest.mark.parametrize("fork", [True, False])
@pytest.mark.parametrize("ends", ["the context", "the executor"])
def test_a_teardown_that_hangs_is_ended_and_says_where_it_was(
    make_executor: MakeExecutor, capfd: pytest.CaptureFixture[str], fork: bool, ends: str
) -> None:
    def hang_late() -> Iterator[dict[str, int]]:
        yield {"number": 7}
        signal.pause()

    context = Context(hang_late, name="model", workers=ContextWorkers(fork=fork))
    executor = make_executor(1)
    assert executor.options(context=context).submit(lambda: context["number"]).result() == 7
    if ends == "the context":
        context.release()
        assert executor.submit(abs, -1).result() == 1
    executor.shutdown()
    said = capfd.readouterr().err
    assert "in hang_late" in said
    assert "the end of context 'model'" in said


@pytest.mark.parametrize("mode", ["direct", "fork"])
def test_each_call_has_a_folder_of_its_own(executor: Executor, log: Log, mode: str) -> None:
    context = Context(load, log, calls=ContextCalls(mode=mode, own_folder=True))
    options = executor.options(context=context)

    def write(fails: bool) -> tuple[str, list[str]]:
        before = os.listdir()
        Path("out").write_text("x")
        assert not fails, os.getcwd()
        return os.getcwd(), before

    folders, contents = zip(*[options.submit(write, False).result() for _ in range(2)], strict=True)
    assert contents == ([], [])
    assert folders[0] != folders[1]
    with pytest.raises(AssertionError) as failure:
        options.submit(write, True).result()
    assert not any(map(os.path.exists, [*folders, str(failure.value).split("\n")[0]]))


def test_the_folder_of_a_call_that_died_is_removed_by_the_next_worker(
    make_executor: MakeExecutor, log: Log
) -> None:
    context = Context(load, log, calls=ContextCalls(own_folder=True))
    options = make_executor(1).options(context=context)

    def die() -> None:
        log.note(os.getcwd())
        os.kill(os.getpid(), signal.SIGKILL)

    with pytest.raises(WorkerLostError):
        options.submit(die).result()
    [folder] = log.notes()
    assert os.path.exists(folder)
    options.submit(os.getcwd).result()
    assert not os.path.exists(folder)


def test_a_forked_call_that_is_interrupted_while_it_starts_is_killed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    fork = os.fork
    children: list[int] = []

    def fork_and_be_interrupted() -> int:
        child = fork()
        if child:
            children.append(child)
            # The signal arrives while the child runs, before its id is known.
            os.kill(os.getpid(), INTERRUPT_SIGNAL)
        return child

    def interrupt(_signal: int, _frame: object) -> None:
        raise TaskInterrupted

    monkeypatch.setattr(os, "fork", fork_and_be_interrupted)
    before = signal.signal(INTERRUPT_SIGNAL, interrupt)
    try:
        with pytest.raises(TaskInterrupted):
            Forked(signal.pause)()
    finally:
        signal.signal(INTERRUPT_SIGNAL, before)
    [child] = children
    assert not lives(child)
