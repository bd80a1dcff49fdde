"""Tasks that need more than a worker, on nodes that have it."""

from __future__ import annotations

from collections.abc import Callable

from gristmill import Executor
from gristmill._nodes.local import LocalNodes

import calls
from stage import Gate

MakeNodes = Callable[..., tuple[Executor, LocalNodes]]


class GpuNodes(LocalNodes):
    """Nodes that claim to have a GPU each."""

    options = ("--gpus", "1", "--memory", "8")


def test_a_gpu_is_one_tasks_at_a_time_also_where_nodes_share_a_host(
    make_nodes: MakeNodes, gate: Gate
) -> None:
    executor, _ = make_nodes(2, 2, kind=GpuNodes)
    with_gpu = executor.options(gpus=1)
    held = [with_gpu.submit(calls.enter_and_see_gpus, gate.path) for _ in range(2)]
    assert gate.wait_entered() != gate.wait_entered()
    third = with_gpu.submit(calls.seen_gpus)
    assert "waits for a worker and 1 GPU; no task is before it" in executor.explain(third)
    assert executor.submit(calls.same, 1).result() == 1, "one that needs none goes by"
    gate.open(2)
    assert sorted(future.result() for future in held) == ["0", "1"]
    assert third.result() in ("0", "1")


def test_a_task_waits_for_a_node_that_has_what_it_needs(make_nodes: MakeNodes) -> None:
    executor, _ = make_nodes(1, 2, kind=GpuNodes)
    executor.submit(calls.nothing).result()
    for needs in ({"gpus": 2}, {"cores": 3}, {"memory": "9GB"}):
        future = executor.options(**needs).submit(calls.nothing)
        assert "No connected node has so much" in executor.explain(future)
        assert future.cancel()
    needs = {"gpus": 1, "cores": 2, "memory": "8GB"}
    assert executor.options(**needs).submit(calls.seen_gpus).result() == "0"


def test_results_that_are_needed_come_to_where_the_gpu_is(make_nodes: MakeNodes) -> None:
    executor, _ = make_nodes(2, 1, kind=GpuNodes)
    numbers = [executor.submit(calls.same, number) for number in range(20)]
    doubled = [executor.options(gpus=0.5).submit(calls.add, one, one) for one in numbers]
    total = executor.options(cores=1, memory="1GB").submit(calls.add, *doubled)
    assert total.result() == 2 * sum(range(20))
