"""Tasks that submit tasks in contexts."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

import pytest

from gristmill import (
    Context,
    ContextError,
    ContextWorkers,
    Executor,
    UnpicklableError,
    current_executor,
)

import calls
import setups
from setups import Log, load, open_and_close, read_thrice
from stage import Gate

MakeExecutor = Callable[..., Executor]

#: A context that is a global variable during a test.
passing: Any = None


def report_of(context: Context, executor: Executor) -> Any:
    report = context.report(executor)
    assert report is not None
    return report


@pytest.mark.parametrize("start", ["fork", "spawn"])
def test_a_task_names_a_context_that_it_has_only_heard_of(
    make_executor: MakeExecutor, log: Log, start: str
) -> None:
    context = Context(load, log)

    executor = make_executor(2, start=start)
    assert executor.submit(read_thrice, context, 4).result() == [4, 4, 4]
    report = report_of(context, executor)
    assert (report.calls, report.setups) == (3, len(log.pids("load")))


@pytest.mark.parametrize("start", ["fork", "spawn"])
def test_the_only_worker_of_a_context_runs_what_its_task_waits_for(
    make_executor: MakeExecutor, log: Log, start: str
) -> None:
    context = Context(load, log, workers=ContextWorkers(max_workers=1))

    def descend(depth: int) -> int:
        if depth == 0:
            return len(context["model"])
        return 1 + current_executor().options(context=context).submit(descend, depth - 1).result()

    executor = make_executor(1, start=start)
    assert executor.options(context=context).submit(descend, 5).result() == 15
    assert report_of(context, executor).calls == 6


def test_a_task_in_one_context_waits_for_one_in_another(
    make_executor: MakeExecutor, log: Log
) -> None:
    short, long = Context(load, log, 3, name="short"), Context(load, log, 7, name="long")

    def size_there(one: Context, other: Context) -> list[int]:
        def size(context: Context) -> int:
            return len(context["model"])

        submitted = current_executor().options(context=other).submit(size, other)
        return [len(one["model"]), submitted.result()]

    executor = make_executor(1)
    first = executor.options(context=short).submit(size_there, short, long)
    second = executor.options(context=long).submit(size_there, long, short)
    assert (first.result(), second.result()) == ([3, 7], [7, 3])


def test_the_contexts_of_a_module_are_those_of_the_program(make_executor: MakeExecutor) -> None:
    executor = make_executor(2)
    # The program and the workers know this context: both import the module.
    assert setups.hello.submit(setups.greet, "program").result() == "hello, program"
    assert executor.submit(setups.greet_in_turn, ["a", "b"]).result() == ["hello, a", "hello, b"]
    report = report_of(setups.hello, executor)
    assert (report.calls, report.setups) == (3, 1)
    setups.hello.release()


def test_submit_and_map_of_a_context_use_the_executor_that_runs_the_task(
    make_executor: MakeExecutor, log: Log
) -> None:
    context = Context(load, log)

    def outer() -> Any:
        def at(place: int) -> int:
            number: int = context["model"][place]
            return number

        return context.submit(at, 2).result(), list(context.map(at, range(5))), context.report()

    assert make_executor(2).submit(outer).result() == (2, [0, 1, 2, 3, 4], None)


def test_options_with_a_context_go_to_tasks(make_executor: MakeExecutor, log: Log) -> None:
    context = Context(load, log)
    executor = make_executor(2)
    options = executor.options(context=context)

    def inner() -> int:
        return len(context["model"])

    def middle() -> int:
        return options.submit(inner).result()

    assert executor.submit(lambda: options.submit(middle).result()).result() == 10


def test_a_context_that_a_task_has_made_serves_its_tasks_and_goes_with_it(
    make_executor: MakeExecutor, log: Log
) -> None:
    def outer() -> list[int]:
        made = Context(open_and_close, log)

        def maker() -> int:
            number: int = made["maker"]
            return number

        def middle() -> int:
            # In this task the context is known by its key.
            return made.submit(maker).result()

        executor = current_executor()
        return [made.submit(maker).result(), executor.submit(middle).result()]

    executor = make_executor(1)
    makers = executor.submit(outer).result()
    assert set(makers) == set(log.pids("open"))
    executor.shutdown()
    assert log.pids("close") == log.pids("open")


def test_a_setup_that_fails_is_told_inside_the_task(make_executor: MakeExecutor) -> None:
    def no_weights() -> None:
        raise ValueError("no weights")

    context = Context(no_weights, name="model")

    def outer() -> str:
        child = current_executor().options(context=context).submit(abs, -1)
        try:
            child.result()
        except ContextError as error:
            return str(error)
        return ""

    executor = make_executor(1)
    text = executor.submit(outer).result()
    assert 'context "model" failed' in text
    assert "ValueError: no weights" in text
    assert executor.submit(abs, -1).result() == 1


def test_a_context_that_was_released_is_not_known_to_tasks(
    make_executor: MakeExecutor, log: Log, gate: Gate
) -> None:
    context = Context(load, log, name="model")

    def outer(path: str) -> None:
        calls.enter(path)
        current_executor().options(context=context).submit(abs, -1).result()

    task = make_executor(1).submit(outer, gate.path)
    gate.wait_entered()
    context.release()
    gate.open()
    with pytest.raises(ContextError, match='context "model" is not known'):
        task.result()


def test_a_released_context_is_known_again_to_tasks_that_are_submitted_anew(
    make_executor: MakeExecutor, log: Log
) -> None:
    global passing
    passing = context = Context(load, log)
    executor = make_executor(2)
    options = executor.options(context=context)

    def names_it() -> int:
        number: int = current_executor().options(context=context).submit(at, 3).result()
        return number

    def names_options() -> int:
        number: int = options.submit(at, 4).result()
        return number

    def names_a_global() -> int:
        number: int = current_executor().options(context=passing).submit(at, 5).result()
        return number

    def at(place: int) -> int:
        return place

    for function, value in [(names_it, 3), (names_options, 4), (names_a_global, 5)] * 2:
        assert executor.submit(function).result() == value
        context.release()
    passing = None


def test_what_cannot_be_sent_fails_where_it_is_submitted(make_executor: MakeExecutor) -> None:
    def outer() -> None:
        import threading

        Context(dict, threading.Lock(), name="model").submit(abs, -1)

    with pytest.raises(UnpicklableError, match="arguments of the setup of context 'model'"):
        make_executor(1).submit(outer).result()


@pytest.mark.slow
def test_a_setup_that_is_too_large_fails_where_it_is_submitted(make_executor: MakeExecutor) -> None:
    def outer() -> None:
        Context(len, bytes((1 << 30) + 1), name="model").submit(abs, -1)

    with pytest.raises(MemoryError, match='context "model" is too large for the program'):
        make_executor(1).submit(outer).result()


def test_a_task_in_a_context_asks_for_nothing_else(make_executor: MakeExecutor) -> None:
    def outer(**needs: Any) -> None:
        current_executor().options(**needs)

    executor = make_executor(1)
    with pytest.raises(Exception, match="a task in context 'word' has the resources"):
        executor.submit(outer, context=setups.hello, cores=2).result()
    with pytest.raises(TypeError, match=r"context must be a gristmill\.Context, not 7"):
        executor.submit(outer, context=7).result()


def test_a_context_of_a_task_is_a_name_elsewhere(make_executor: MakeExecutor) -> None:
    executor = make_executor(1)
    made = executor.submit(lambda: Context(dict, name="model")).result()
    with pytest.raises(ContextError, match="context 'model' was made in a task"):
        executor.options(context=made).submit(os.getpid)


@pytest.mark.long
def test_contexts_of_many_tasks_leave_nothing_behind(make_executor: MakeExecutor, log: Log) -> None:
    def outer(size: int) -> int:
        made = Context(load, log, size)
        return len(made.submit(lambda: made["model"]).result())

    executor = make_executor(2)
    assert list(executor.map(outer, range(1, 9))) == list(range(1, 9))
    assert len(log.pids("load")) == 8


def end_of_a_dying_child(options: dict[str, Any]) -> str:
    """Returns the type of the error that a parent gets for a child that ends its worker."""
    error = current_executor().options(**options).submit(calls.leave, 3).exception()
    return type(error).__name__


@pytest.mark.parametrize("workers", [1, 2])
def test_a_parent_beside_contexts_outlives_a_child_that_dies(
    make_executor: MakeExecutor, log: Log, workers: int
) -> None:
    context = Context(load, log)
    executor = make_executor(workers)
    assert executor.options(context=context).submit(abs, -1).result() == 1
    assert executor.submit(end_of_a_dying_child, {}).result() == "WorkerLostError"


@pytest.mark.parametrize("workers", [1, 2])
def test_a_parent_in_a_context_outlives_a_child_that_dies(
    make_executor: MakeExecutor, log: Log, workers: int
) -> None:
    context = Context(load, log)
    options = make_executor(workers).options(context=context)
    assert options.submit(end_of_a_dying_child, {"context": context}).result() == "WorkerLostError"
