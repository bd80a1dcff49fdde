"""Tasks that may run on several executors are sent to the executor with the least work."""

from __future__ import annotations

from collections import Counter
from concurrent.futures import Future
from types import SimpleNamespace
from typing import Any

import pytest

from gristmill.parsl import GristmillExecutor, ThreadPoolExecutor, python_app
from gristmill.parsl._kernel.choice import chooser, worker_count
from gristmill.parsl.executors.base import ParslExecutor

import calls
from stage import Gate


class Hand(ParslExecutor):
    """An executor whose tasks end when the test says so."""

    def __init__(self, label: str, max_threads: int = 1) -> None:
        super().__init__()
        self.label = label
        self.max_threads = max_threads
        self.open: list[Future[Any]] = []

    def submit(self, func: Any, /, resource_specification: Any, *args: Any, **kwargs: Any) -> Any:
        """Accepts a task."""
        self.open.append(Future())
        return self.open[-1]

    def finish(self) -> None:
        """Ends the oldest task."""
        self.open.pop(0).set_result(self.label)

    def shutdown(self) -> None:
        """Ends all tasks."""
        while self.open:
            self.finish()


def test_a_slow_executor_gets_fewer_tasks_than_a_fast_one(make_kernel: Any) -> None:
    slow, fast = Hand("slow"), Hand("fast")
    app = python_app(calls.nothing, data_flow_kernel=make_kernel("threads", executors=[slow, fast]))
    futures = []
    for _ in range(50):
        futures.append(app())
        if fast.open:
            fast.finish()
    slow.shutdown()
    counts = Counter(future.result() for future in futures)
    assert counts["slow"] == 1
    assert counts["fast"] == 49


def test_tasks_are_shared_by_the_number_of_workers(make_kernel: Any) -> None:
    executors = [Hand("one"), Hand("three", max_threads=3)]
    kernel = make_kernel("threads", executors=executors)
    app = python_app(calls.nothing, data_flow_kernel=kernel)
    for _ in range(40):
        app()
    assert [len(executor.open) for executor in executors] == [10, 30]


def test_only_the_named_executors_are_chosen_from(make_kernel: Any) -> None:
    executors = [Hand("a"), Hand("b"), Hand("c")]
    kernel = make_kernel("threads", executors=executors)
    app = python_app(calls.nothing, data_flow_kernel=kernel, executors=["a", "c"])
    for _ in range(10):
        app()
    assert [len(executor.open) for executor in executors] == [5, 0, 5]


def test_tasks_that_wait_for_others_count(make_kernel: Any) -> None:
    executors = [Hand("a"), Hand("b")]
    kernel = make_kernel("threads", executors=executors)
    never: Future[int] = Future()
    app = python_app(calls.same, data_flow_kernel=kernel)
    chosen = Counter(app(never).task_record["executor"] for _ in range(10))
    assert chosen == {"a": 5, "b": 5}
    never.set_result(1)


def test_tasks_that_the_engine_runs_by_itself_count(make_kernel: Any, hold: Gate) -> None:
    engine, hand = GristmillExecutor(label="engine", max_workers=1), Hand("hand")
    kernel = make_kernel("threads", executors=[engine, hand])
    plain = python_app(calls.enter, data_flow_kernel=kernel, executors=["engine"])
    held = [plain(hold.path) for _ in range(5)]
    hold.wait_entered()
    app = python_app(calls.nothing, data_flow_kernel=kernel)
    for _ in range(4):
        app()
    assert len(hand.open) == 4
    hold.open(5)
    assert [one.result() for one in held] == [None] * 5


def test_equals_are_chosen_from_at_random(make_kernel: Any) -> None:
    executors = [Hand("a"), Hand("b")]
    kernel = make_kernel("threads", executors=executors)
    app = python_app(calls.nothing, data_flow_kernel=kernel)
    chosen = set()
    while chosen != {"a", "b"}:  # the watchdog ends a choice that is always the same
        chosen.add(app().task_record["executor"])
        for executor in executors:
            executor.shutdown()


def test_random_choice_does_not_look_at_the_load(make_kernel: Any) -> None:
    choose = chooser("random", {}, {"busy": 1_000_000, "idle": 0})
    while choose(["busy", "idle"]) != "busy":
        pass
    executors = [Hand("a"), Hand("b")]
    kernel = make_kernel("threads", executors=executors, executor_choice="random")
    for _ in range(10):
        python_app(calls.nothing, data_flow_kernel=kernel)()
    assert sum(len(executor.open) for executor in executors) == 10


@pytest.mark.parametrize(
    ("executor", "workers"),
    [
        (ThreadPoolExecutor(max_threads=5), 5),
        (GristmillExecutor(max_workers=3), 3),
        (SimpleNamespace(workers_per_node=4, provider=SimpleNamespace(nodes_per_block=2)), 8),
        (SimpleNamespace(workers_per_node=4, blocks_to_job_id={"0": 1, "1": 2}), 8),
        (SimpleNamespace(workers_per_node=float("inf")), 1),
        (SimpleNamespace(workers_per_node=0), 1),
        (SimpleNamespace(), 1),
    ],
)
def test_executors_say_how_many_tasks_they_run_at_once(executor: Any, workers: int) -> None:
    assert worker_count(executor) == workers
    assert worker_count(ThreadPoolExecutor(max_threads=None)) >= 1
