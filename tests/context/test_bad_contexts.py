"""Contexts that cannot be set up: a clear error names the context and the step, and no other task is lost."""

from __future__ import annotations

import gc
import os
import resource
import signal
import threading
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from gristmill import (
    Context,
    ContextCalls,
    ContextError,
    ContextWorkers,
    Executor,
    ResourceError,
    UnpicklableError,
)
from gristmill._context.declare import with_reuse

import setups
from setups import Log, load
from stage import Gate

MakeExecutor = Callable[..., Executor]


def test_a_setup_that_raises_fails_its_tasks_and_no_others(executor: Executor) -> None:
    context = Context(setups.no_weights, name="model")
    options = executor.options(context=context)
    failed = [options.submit(abs, -1) for _ in range(3)]
    for future in failed:
        with pytest.raises(
            ContextError, match=r'(?s)context "model" failed.*ValueError: no weights'
        ):
            future.result()
    assert executor.submit(abs, -1).result() == 1
    with pytest.raises(ContextError, match="no weights"):
        options.submit(abs, -1).result()
    report = context.report(executor)
    assert report is not None
    assert "no weights" in (report.failure or "")


def test_a_setup_that_raises_in_each_worker_says_so(make_executor: MakeExecutor) -> None:
    executor = make_executor(1)
    options = executor.options(
        context=Context(setups.no_weights, name="model", workers=ContextWorkers(fork=False))
    )
    with pytest.raises(
        ContextError, match=r'(?s)context "model": the setup failed.*ValueError: no weights'
    ):
        options.submit(abs, -1).result()
    assert executor.submit(abs, -1).result() == 1


@pytest.mark.parametrize("fork", [True, False])
def test_a_setup_that_hangs_is_stopped_and_says_where_it_was(
    executor: Executor, fork: bool
) -> None:
    def hang() -> None:
        threading.Event().wait()

    context = Context(hang, name="model", workers=ContextWorkers(timeout=1, fork=fork))
    with pytest.raises(ContextError, match=r"(?s)model.* in time.*threading.py.* in wait"):
        executor.options(context=context).submit(abs, -1).result()
    assert executor.submit(abs, -1).result() == 1


@pytest.mark.parametrize("reuse", ["memory", "disk"])
def test_a_setup_that_uses_alarms_itself_is_stopped_as_well(executor: Executor, reuse: str) -> None:
    def hang() -> None:
        signal.signal(signal.SIGALRM, signal.SIG_IGN)
        signal.alarm(0)
        threading.Event().wait()

    context = with_reuse(Context(hang, name="model", workers=ContextWorkers(timeout=1)), reuse)
    with pytest.raises(ContextError, match=r"(?s)model.* in time.*threading.py.* in wait"):
        executor.options(context=context).submit(abs, -1).result()


@pytest.mark.parametrize("reuse", ["none", "disk"])
def test_a_setup_that_fails_in_the_process_of_a_call_fails_the_context(
    executor: Executor, reuse: str
) -> None:
    options = executor.options(context=with_reuse(Context(setups.no_weights, name="model"), reuse))
    with pytest.raises(
        ContextError, match=r"(?s)setup of context 'model' failed.*in no_weights.*no weights"
    ):
        options.submit(abs, -1).result()
    options = executor.options(context=with_reuse(Context(os._exit, 3, name="model"), reuse))
    with pytest.raises(ContextError, match=r"context 'model' ended with exit code 3"):
        options.submit(abs, -1).result()


def test_a_setup_that_forks_does_not_make_two_of_it(executor: Executor, tmp_path: Path) -> None:
    def fork(log: Log) -> dict[str, Any]:
        os.fork()
        log.add("here")
        return {"maker": os.getpid()}

    log = Log(tmp_path)
    context = Context(fork, log)
    maker = executor.options(context=context).submit(lambda: context["maker"]).result()
    assert maker in log.pids("here")
    assert [future.result() for future in executor.submit_many(abs, [-1] * 9)] == [1] * 9


def test_a_setup_that_dies_is_tried_again_and_then_given_up(make_executor: MakeExecutor) -> None:
    def die() -> None:
        os.kill(os.getpid(), signal.SIGKILL)

    executor = make_executor(1)
    with pytest.raises(ContextError, match='"model" was killed'):
        executor.options(context=Context(die, name="model")).submit(abs, -1).result()
    assert executor.submit(abs, -1).result() == 1


def test_a_setup_that_crashes_is_tried_again_and_then_given_up_with_where_it_was(
    make_executor: MakeExecutor,
) -> None:
    def crash() -> None:
        os.kill(os.getpid(), signal.SIGSEGV)

    executor = make_executor(1)
    context = with_reuse(Context(crash, name="model"), "none")
    with pytest.raises(ContextError, match=r"(?s)'model'.*SIGSEGV.* in crash"):
        executor.options(context=context).submit(abs, -1).result()
    with pytest.raises(ContextError, match=r'(?s)"model" was killed by .*SIGSEGV.* in crash'):
        executor.options(context=Context(crash, name="model")).submit(abs, -1).result()
    assert executor.submit(abs, -1).result() == 1


def test_a_setup_that_eats_the_memory_costs_no_task_of_other_contexts(executor: Executor) -> None:
    def eat() -> dict[str, bytearray]:
        resource.setrlimit(resource.RLIMIT_AS, (1 << 30, 1 << 30))
        return {"eaten": bytearray(2 << 30)}

    other = executor.options(context=setups.hello)
    before = [other.submit(setups.greet, "you") for _ in range(9)]
    eaten = executor.options(context=Context(eat, name="model")).submit(abs, -1)
    after = [other.submit(setups.greet, "you") for _ in range(9)]
    with pytest.raises(
        ContextError, match=r'(?s)setup of context "model" failed.*in eat.*MemoryError'
    ):
        eaten.result()
    assert [future.result() for future in [*before, *after]] == ["hello, you"] * 18


def test_a_setup_that_leaves_threads_behind_is_set_up_in_each_worker(
    executor: Executor, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    def start_a_thread(log: Log) -> dict[str, Any]:
        log.add("begin")
        threading.Thread(target=threading.Event().wait, daemon=True).start()
        return {"maker": os.getpid()}

    log = Log(tmp_path)
    context = Context(start_a_thread, log, name="model")
    with warnings.catch_warnings():
        warnings.simplefilter("always")
        options = executor.options(context=context)
        assert options.submit(lambda: context["maker"] == os.getpid()).result()
    executor.shutdown()
    assert "the setup of context 'model' started threads" in capfd.readouterr().err


def test_a_setup_must_leave_a_dict(executor: Executor) -> None:
    context = Context(lambda: [1, 2], name="model")
    with pytest.raises(
        ContextError, match="'model' must return a dict of names to objects, not list"
    ):
        executor.options(context=context).submit(abs, -1).result()


def test_a_missing_module_is_named(executor: Executor) -> None:
    context = Context(
        dict, name="model", workers=ContextWorkers(preload=["no_such_module_anywhere"])
    )
    with pytest.raises(ContextError, match=r"(?s)model.*No module named 'no_such_module_anywhere'"):
        executor.options(context=context).submit(abs, -1).result()


def test_a_task_without_the_context_says_what_to_do(executor: Executor, tmp_path: Path) -> None:
    context = Context(load, Log(tmp_path), name="model")
    with pytest.raises(ContextError, match="does not have context 'model': submit the task with"):
        executor.submit(lambda: context["model"]).result()
    with pytest.raises(ContextError, match="this worker has context 'word', not 'model'"):
        executor.options(context=setups.hello).submit(lambda: context["model"]).result()
    with pytest.raises(ContextError, match="not set up in this process"):
        context["model"]


def test_a_name_that_the_setup_has_not_left_is_told_with_those_that_it_has(
    executor: Executor,
) -> None:
    with pytest.raises(
        KeyError, match="context 'word' has no 'sentence': its setup returned 'word'"
    ):
        executor.options(context=setups.hello).submit(lambda: setups.hello["sentence"]).result()


def test_a_task_that_has_only_heard_of_a_context_cannot_set_it_up(
    executor: Executor, tmp_path: Path
) -> None:
    context = Context(load, Log(tmp_path), name="model")

    def set_up() -> None:
        context.release()  # needs only its name
        with context:
            pass

    with pytest.raises(
        ContextError, match="'model' cannot be set up in this process, which knows only its name"
    ):
        executor.submit(set_up).result()
    assert executor.options(context=context).submit(lambda: len(context["model"])).result() == 10


def test_large_arguments_without_room_on_the_disk_name_context_and_step(
    executor: Executor, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GRISTMILL_LOCAL_DIR", str(tmp_path))
    context = Context(setups.word, np.zeros(1 << 18), name="model")
    limit = resource.getrlimit(resource.RLIMIT_FSIZE)
    handler = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 16, limit[1]))
    try:
        with pytest.raises(
            ContextError, match=f"arguments of .*'model' cannot be kept.*{tmp_path}"
        ):
            executor.options(context=context).submit(abs, -1)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limit)
        signal.signal(signal.SIGXFSZ, handler)
    assert executor.options(context=context).submit(abs, -1).result() == 1


def test_arguments_that_cannot_be_sent_are_named(executor: Executor) -> None:
    context = Context(dict, threading.Lock(), name="model")
    with pytest.raises(UnpicklableError, match="arguments of the setup of context 'model'"):
        executor.options(context=context).submit(abs, -1)


def test_options_that_make_no_sense_are_refused_at_once(executor: Executor) -> None:
    for options in ({"max_workers": 0}, {"timeout": 0}):
        with pytest.raises(ValueError, match=next(iter(options))):
            ContextWorkers(**options)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="mode"):
        ContextCalls(mode="thread")
    with pytest.raises(ValueError, match="reuse"):
        with_reuse(Context(dict), "tape")
    for text in ({"max_workers": 1.5}, {"max_workers": "2"}, {"timeout": "10"}, {"keep": "10"}):
        with pytest.raises(TypeError, match=f"{next(iter(text))} must be a .*number"):
            ContextWorkers(**text)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="setup must be callable"):
        Context({"model": 1})  # type: ignore[arg-type]
    with pytest.raises(TypeError, match=r"gristmill\.Context"):
        executor.options(context={"model": 1})  # type: ignore[arg-type]
    with pytest.raises(ResourceError, match="cannot request cores"):
        executor.options(context=Context(dict), cores=2)


def test_a_context_that_is_changed_is_another_one(make_executor: MakeExecutor) -> None:
    executor = make_executor(1)
    for text in ("one", "two"):
        context = Context(setups.word, text)
        assert (
            executor.options(context=context).submit(lambda c=context: c["word"]).result() == text
        )


def test_calls_of_a_context_that_was_changed_are_completed_with_the_old_one(
    make_executor: MakeExecutor, tmp_path: Path, gate: Gate
) -> None:
    log = Log(tmp_path)
    executor = make_executor(2)
    context = Context(setups.open_and_close, log)
    running = executor.options(context=context).submit(setups.enter_with, gate.path, context)
    gate.wait_entered()
    [old] = log.pids("open")
    context = Context(setups.open_and_close, log, workers=ContextWorkers(preload=["json"]))
    options = executor.options(context=context)
    assert options.submit(lambda: context["maker"]).result() != old
    assert log.pids("close") == []
    gate.open()
    assert running.result() == old
    del running
    gc.collect()
    while not log.pids("close"):
        executor.submit(abs, -1).result()
    assert log.pids("close") == [old]


def test_time_to_set_up_is_not_time_that_a_task_runs(executor: Executor) -> None:
    def slow() -> dict[str, Any]:
        time.sleep(0.3)
        return {}

    options = executor.options(context=Context(slow), timeout=0.2)
    assert options.submit(abs, -1).result() == 1
