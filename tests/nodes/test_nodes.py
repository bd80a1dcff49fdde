"""Workers on other nodes: a program gets the same behaviour as from local workers."""

from __future__ import annotations

import concurrent.futures
import operator
import signal
import time
from collections.abc import Callable
from concurrent.futures import CancelledError

import pytest

from gristmill import Executor, TaskTimeoutError, on
from gristmill._nodes.local import LocalNodes

import calls
from stage import Gate, descent, lives

MakeNodes = Callable[..., tuple[Executor, LocalNodes]]


def test_results_come_back_in_any_number(cluster: Executor) -> None:
    futures = [cluster.submit(operator.mul, number, number) for number in range(5000)]
    assert [future.result() for future in futures] == [number**2 for number in range(5000)]
    assert list(cluster.map(abs, range(-1000, 0))) == list(range(1000, 0, -1))


def test_both_nodes_work(make_nodes: MakeNodes, gate: Gate) -> None:
    executor, _ = make_nodes(2, 1)
    futures = [executor.submit(calls.enter, gate.path) for _ in range(2)]
    inside = {gate.wait_entered(), gate.wait_entered()}
    assert len(inside) == 2, "each has one worker"
    gate.open(2)
    assert [future.result() for future in futures] == [None, None]


def test_an_exception_arrives_with_its_traceback(cluster: Executor) -> None:
    with pytest.raises(ValueError, match="no") as caught:
        cluster.submit(calls.fail).result()
    assert "calls.py" in str(caught.value.__cause__)


def test_functions_by_value_and_their_captures(cluster: Executor) -> None:
    base = {"a": 1}
    assert cluster.submit(lambda key: base[key] + 1, "a").result() == 2
    base["a"] = 10
    assert cluster.submit(lambda key: base[key] + 1, "a").result() == 11


def test_futures_as_arguments(cluster: Executor) -> None:
    parents = [cluster.submit(calls.same, number) for number in range(10)]
    total = cluster.submit(calls.total, [cluster.submit(calls.add, one, one) for one in parents])
    assert total.result() == 90


def test_large_arrays_go_and_come(cluster: Executor) -> None:
    numpy = pytest.importorskip("numpy")
    values = numpy.arange(3_000_000, dtype=float)
    doubled = cluster.submit(operator.mul, values, 2)
    assert numpy.array_equal(doubled.result(), values * 2)
    again = cluster.submit(operator.add, doubled, 1)
    assert numpy.array_equal(again.result(), values * 2 + 1)


def test_bytes_larger_than_any_chunk(cluster: Executor) -> None:
    assert cluster.submit(len, bytes(40 << 20)).result() == 40 << 20
    assert len(cluster.submit(calls.block, 40 << 20).result()) == 40 << 20


def test_tasks_that_submit_tasks(cluster: Executor) -> None:
    assert cluster.submit(calls.nested_sum, 20).result() == 20


def test_a_task_that_has_not_started_is_cancelled_and_one_that_runs_is_not(
    make_nodes: MakeNodes, gate: Gate
) -> None:
    executor, _ = make_nodes(1, 1)
    running = executor.submit(calls.enter, gate.path)
    gate.wait_entered()
    waiting = executor.submit(calls.nothing)
    assert waiting.cancel()
    assert waiting.cancelled()
    assert not running.cancel()
    gate.open()
    assert running.result() is None


def test_a_running_task_is_stopped_on_request(make_nodes: MakeNodes, gate: Gate) -> None:
    executor, _ = make_nodes(1, 1)
    running = executor.submit(calls.enter, gate.path)
    gate.wait_entered()
    assert running.cancel(running=True)  # type: ignore[call-arg]
    with pytest.raises(CancelledError):
        running.result()


def test_time_limits_hold_on_nodes(make_nodes: MakeNodes, gate: Gate) -> None:
    executor, _ = make_nodes(1, 1)
    with pytest.raises(TaskTimeoutError, match="longer than its timeout"):
        executor.options(timeout=0.05).submit(signal.pause).result()
    held = executor.submit(calls.enter, gate.path)
    gate.wait_entered()
    late = executor.options(start_within=0.01).submit(calls.nothing)
    with pytest.raises(TaskTimeoutError, match="start_within"):
        late.result()
    gate.open()
    held.result()


def test_retries_count_on_whatever_node(make_nodes: MakeNodes, tmp_path: object) -> None:
    executor, _ = make_nodes(2, 1)
    path = f"{tmp_path}/tries"
    assert executor.options(retries=3).submit(calls.fail_first, path, 2).result() == 3


def test_shutdown_cancels_what_has_not_started(make_nodes: MakeNodes, gate: Gate) -> None:
    executor, _ = make_nodes(1, 1)
    running = executor.submit(calls.enter, gate.path)
    gate.wait_entered()
    others = [executor.submit(calls.nothing) for _ in range(50)]
    executor.shutdown(wait=False, cancel_futures=True)
    assert all(future.cancelled() for future in others)
    gate.open()
    assert running.result() is None


def test_shutdown_cancels_what_waits_on_a_node_for_a_task_that_runs_there(
    make_nodes: MakeNodes, gate: Gate
) -> None:
    executor, _ = make_nodes(1, 1)
    running = executor.submit(calls.enter, gate.path)
    gate.wait_entered()
    others = [executor.submit(calls.both, running, number) for number in range(50)]
    last = executor.submit(calls.same, others)
    while executor.stats().in_flight < 2:  # until some have been sent ahead
        time.sleep(0.001)
    executor.shutdown(wait=False, cancel_futures=True)
    assert concurrent.futures.wait([*others, last]).not_done == set()
    assert all(future.cancelled() for future in [*others, last])
    gate.open()
    assert running.result() is None


def test_no_process_is_left_after_shutdown(make_nodes: MakeNodes) -> None:
    executor, placement = make_nodes(2, 1)
    executor.submit(calls.pid).result()
    agents = [agent.pid for agent in placement.agents]
    below = [process for agent in agents for process in descent(agent)]
    assert below
    executor.shutdown()
    assert not [process for process in agents + below if lives(process)]


def test_a_placement_says_what_is_wrong_with_it() -> None:
    with pytest.raises(ValueError, match="must be between 1 and"):
        on.local(0)
