"""Contexts whose workers have GPUs, memory and cores."""

from __future__ import annotations

import os
from collections.abc import Callable

import pytest

from gristmill import Context, ContextResources, Executor, ResourceError

import calls
import setups
from setups import Log
from stage import Gate

MakeExecutor = Callable[..., Executor]

pytestmark = pytest.mark.skipif(
    "GRISTMILL_TEST_NODES" in os.environ, reason="nodes have what their agents are told"
)


def test_setup_and_calls_see_the_gpu_of_their_worker(
    make_executor: MakeExecutor, log: Log, gate: Gate
) -> None:
    context = Context(setups.see_gpus, log, resources=ContextResources(gpus=1))
    options = make_executor(3, gpus=2).options(context=context)
    futures = [
        options.submit(lambda: (calls.enter_and_see_gpus(gate.path), context["gpus"]))
        for _ in range(2)
    ]
    gate.wait_entered(), gate.wait_entered()
    gate.open(2)
    found = sorted(future.result() for future in futures)
    assert found == [("0", "0"), ("1", "1")]
    assert sorted(log.notes()) == ["0", "1"], "each worker has set it up for itself"


def test_no_more_workers_have_a_context_than_there_are_gpus(
    make_executor: MakeExecutor, log: Log
) -> None:
    context = Context(setups.see_gpus, log, resources=ContextResources(gpus=1))
    executor = make_executor(4, gpus=1)
    options = executor.options(context=context)
    assert len(set(options.map(lambda _: os.getpid(), range(50)))) == 1
    report = context.report(executor)
    assert report is not None
    assert report.holds == ContextResources(cores=1, gpus=1.0)
    assert (report.workers, report.setups) == (1, 1)


def test_workers_share_a_gpu(make_executor: MakeExecutor, log: Log, gate: Gate) -> None:
    context = Context(setups.see_gpus, log, resources=ContextResources(gpus=0.5))
    options = make_executor(3, gpus=1).options(context=context)
    held = [options.submit(calls.enter_and_see_gpus, gate.path) for _ in range(2)]
    gate.wait_entered(), gate.wait_entered()
    gate.open(2)
    assert [future.result() for future in held] == ["0", "0"]


def test_a_task_gets_the_gpu_of_a_context_that_has_nothing_to_do(
    make_executor: MakeExecutor, log: Log
) -> None:
    context = Context(setups.see_gpus, log, resources=ContextResources(gpus=1))
    executor = make_executor(2, gpus=1)
    options = executor.options(context=context)
    one = executor.options(gpus=1)
    for _ in range(3):
        assert options.submit(lambda: context["gpus"]).result() == "0"
        assert one.submit(calls.seen_gpus).result() == "0"


def test_contexts_and_tasks_take_turns_with_one_gpu(make_executor: MakeExecutor, log: Log) -> None:
    contexts = [
        Context(setups.see_gpus, log, name=name, resources=ContextResources(gpus=1))
        for name in ("one", "other")
    ]
    executor = make_executor(3, gpus=1)
    futures = []
    for number in range(40):
        for context in contexts:
            futures.append(executor.options(context=context).submit(calls.same, number))
        futures.append(executor.options(gpus=1).submit(calls.same, number))
    assert sum(future.result() for future in futures) == 3 * sum(range(40))


def test_a_context_with_memory_is_shared_by_forked_workers(
    make_executor: MakeExecutor, log: Log, gate: Gate
) -> None:
    context = Context(setups.load, log, resources=ContextResources(memory="4GB"))
    executor = make_executor(4, memory="8GB")
    options = executor.options(context=context)
    held = [options.submit(calls.enter, gate.path) for _ in range(3)]
    gate.wait_entered(), gate.wait_entered()
    late = executor.options(memory="1GB").submit(calls.same, 1)
    gate.open(3)
    assert [future.result() for future in held] == [None] * 3
    assert late.result() == 1
    report = context.report(executor)
    assert report is not None
    assert report.deployments == 2, "there is memory for two"
    assert len(log.pids("load")) == 1


def test_calls_use_as_many_threads_as_their_context_has_cores(
    make_executor: MakeExecutor, log: Log
) -> None:
    context = Context(setups.load, log, resources=ContextResources(cores=2))
    executor = make_executor(2, threads_per_worker=3)
    options = executor.options(context=context)
    assert options.submit(calls.seen_threads).result() == "6"
    assert executor.submit(calls.seen_threads).result() == "3"


def test_a_context_that_asks_for_more_than_there_is_is_refused(
    make_executor: MakeExecutor,
) -> None:
    context = Context(setups.word, "x", name="giant", resources=ContextResources(gpus=2))
    executor = make_executor(2, gpus=1)
    with pytest.raises(
        ResourceError, match=r'context "giant" needs 2 GPUs, and the executor has 1 GPU'
    ):
        executor.options(context=context).submit(calls.same, 1)
    assert executor.submit(calls.same, 1).result() == 1


@pytest.mark.parametrize("needs", [{"gpus": -1}, {"gpus": 1.5}, {"memory": "much"}, {"cores": 0}])
def test_needs_beyond_the_machine_are_refused_at_once(needs: dict[str, object]) -> None:
    with pytest.raises(ValueError, match=r"gpus|memory|cores"):
        ContextResources(**needs)  # type: ignore[arg-type]


def test_what_a_context_asks_for_is_part_of_it() -> None:
    plain, equipped = (
        Context(setups.word, "x"),
        Context(setups.word, "x", resources=ContextResources(gpus=1)),
    )
    assert plain.key != equipped.key
