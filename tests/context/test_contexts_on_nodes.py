"""Contexts on other nodes: announced, set up and forgotten there."""

from __future__ import annotations

import os
from collections.abc import Callable

import pytest

from gristmill import Context, ContextError, ContextResources, ContextWorkers, Executor, on
from gristmill._nodes.local import LocalNodes

import calls
import setups
from setups import Log, load, open_and_close
from stage import Gate

MakeExecutor = Callable[..., Executor]


def test_each_node_sets_a_context_up_once(
    make_executor: MakeExecutor, log: Log, gate: Gate
) -> None:
    context = Context(load, log)
    executor = make_executor(1, nodes=on.local(2, 1))
    options = executor.options(context=context)
    futures = [options.submit(calls.enter, gate.path) for _ in range(2)]
    workers = {gate.wait_entered(), gate.wait_entered()}
    gate.open(2)
    for future in futures:
        future.result()
    assert len(workers) == 2
    assert [options.submit(lambda place: context["model"][place], 4).result() for _ in range(9)]
    assert len(log.pids("load")) == 2
    report = context.report(executor)
    assert report is not None
    assert (report.deployments, report.setups, report.calls) == (2, 2, 11)
    assert report.setup_seconds > 0


def test_a_setup_that_fails_on_a_node_names_it(make_executor: MakeExecutor) -> None:
    def no_weights() -> None:
        raise ValueError("no weights")

    context = Context(no_weights, name="model")
    executor = make_executor(1, nodes=on.local(1, 1))
    with pytest.raises(ContextError, match=r'(?s)on node .*context "model" failed.*no weights'):
        executor.options(context=context).submit(abs, -1).result()
    assert executor.submit(abs, -1).result() == 1


def test_a_context_that_is_released_ends_on_its_node(make_executor: MakeExecutor, log: Log) -> None:
    context = Context(open_and_close, log)
    executor = make_executor(1, nodes=on.local(1, 1))
    options = executor.options(context=context)
    first = options.submit(lambda: context["maker"]).result()
    context.release()
    second = options.submit(lambda: context["maker"]).result()
    assert first != second
    executor.shutdown()
    assert sorted(log.pids("close")) == sorted([first, second])


def test_plain_tasks_and_contexts_share_a_node(make_executor: MakeExecutor, log: Log) -> None:
    context = Context(load, log, workers=ContextWorkers(max_workers=1))
    executor = make_executor(2, nodes=on.local(1, 2))
    options = executor.options(context=context)
    futures = [options.submit(os.getpid) for _ in range(50)]
    futures += [executor.submit(os.getpid) for _ in range(50)]
    found = [future.result() for future in futures]
    assert len(set(found[:50])) == 1
    assert not set(found[:50]) & set(found[50:])


class GpuNodes(LocalNodes):
    """Nodes that claim to have a GPU each."""

    options = ("--gpus", "1", "--memory", "8")


def test_a_context_goes_to_nodes_that_have_its_gpu(make_executor: MakeExecutor, log: Log) -> None:
    context = Context(setups.see_gpus, log, resources=ContextResources(gpus=1))
    executor = make_executor(1, nodes=GpuNodes(1, 2))
    futures = [executor.options(context=context).submit(calls.seen_gpus) for _ in range(20)]
    assert {future.result() for future in futures} == {"0"}
    assert log.notes() == ["0"], "one worker has the only GPU"
    assert executor.options(gpus=1).submit(calls.seen_gpus).result() == "0"
    giant = Context(setups.word, "x", resources=ContextResources(gpus=2))
    waiting = executor.options(context=giant).submit(calls.same, 1)
    assert "No connected node has so much" in executor.explain(waiting)
    assert waiting.cancel()
