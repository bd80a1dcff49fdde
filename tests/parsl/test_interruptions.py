"""Signal handlers and destructors run at any point, also in the middle of the kernel, and may call apps."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from gristmill.parsl import DataFlowKernel, python_app
from gristmill.parsl._kernel import futures
from gristmill.parsl._kernel.futures import GraphFuture
from gristmill.parsl._kernel.task_states import TaskStates
from gristmill.parsl.dataflow.memoization import BasicMemoizer

import calls

MakeKernel = Callable[..., DataFlowKernel]


@pytest.fixture
def interrupt() -> Iterator[Callable[[Callable[[], Any]], Callable[[], None]]]:
    """Yields a function that lets a signal handler make a call at the next signal, once."""
    before = signal.getsignal(signal.SIGUSR1)

    def arm(call: Callable[[], Any]) -> Callable[[], None]:
        waiting = [call]

        def handle(_number: int, _frame: object) -> None:
            if waiting:
                waiting.pop()()

        signal.signal(signal.SIGUSR1, handle)
        return lambda: signal.raise_signal(signal.SIGUSR1)

    yield arm
    signal.signal(signal.SIGUSR1, before)


def test_a_handler_calls_an_app_while_a_task_is_counted(
    make_kernel: MakeKernel, interrupt: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    kernel, made = make_kernel("threads"), []
    app = python_app(calls.same, data_flow_kernel=kernel)
    strike = interrupt(lambda: made.append(app(2)))
    count = TaskStates._count_for

    def interrupted(self: TaskStates, *arguments: Any) -> None:
        strike()
        count(self, *arguments)

    monkeypatch.setattr(TaskStates, "_count_for", interrupted)
    assert app(1).result() == 1
    assert made[0].result() == 2
    kernel.wait_for_current_tasks()
    counts = kernel.task_state_counts
    assert {state.name: counts[state] for state in counts if counts[state]} == {"exec_done": 2}
    assert sum(kernel._graph.task_states.outstanding.values()) == 0


def test_a_handler_waits_for_another_future_while_one_is_made_waitable(
    make_kernel: MakeKernel, interrupt: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    kernel, is_over, seen = make_kernel("threads"), threading.Event(), []
    app = python_app(is_over.wait, data_flow_kernel=kernel)
    one, other = app(), app()
    strike = interrupt(lambda: other.add_done_callback(seen.append))
    condition = threading.Condition

    def interrupted(*arguments: Any) -> threading.Condition:
        strike()
        return condition(*arguments)

    monkeypatch.setattr(futures.threading, "Condition", interrupted)
    one.add_done_callback(seen.append)
    is_over.set()
    assert one.result()
    assert other.result()
    kernel.wait_for_current_tasks()
    assert set(seen) == {one, other}


def test_a_handler_adds_a_callback_to_the_future_that_is_made_waitable(
    make_kernel: MakeKernel, interrupt: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    kernel, is_over, seen = make_kernel("threads"), threading.Event(), []
    future = python_app(is_over.wait, data_flow_kernel=kernel)()
    assert isinstance(future, GraphFuture)
    strike = interrupt(lambda: future.add_done_callback(lambda _: seen.append("handler")))
    show = futures._show

    def interrupted(one: Any) -> None:
        show(one)
        strike()

    monkeypatch.setattr(futures, "_show", interrupted)
    future.add_done_callback(lambda _: seen.append("program"))
    is_over.set()
    assert future.result()
    kernel.cleanup()
    assert sorted(seen) == ["handler", "program"]


class Stopped(Exception):
    """The exception that a signal handler raises."""


def stop() -> None:
    raise Stopped


def test_a_handler_that_raises_while_a_task_is_taken_in_leaves_no_task_behind(
    make_kernel: MakeKernel, interrupt: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    kernel = make_kernel("threads")
    app = python_app(calls.same, data_flow_kernel=kernel)
    strike = interrupt(stop)
    tell = TaskStates._tell

    def interrupted(self: TaskStates, task: Any) -> None:
        strike()
        tell(self, task)

    monkeypatch.setattr(TaskStates, "_tell", interrupted)
    with pytest.raises(Stopped):
        app(1)
    assert app(2).result() == 2
    kernel.wait_for_current_tasks()
    counts = kernel.task_state_counts
    counted = {state.name: count for state, count in counts.items() if count}
    assert counted == {"failed": 1, "exec_done": 1}
    assert kernel._graph.task_states._open_count == 0


def test_a_handler_that_raises_while_a_task_ends_blocks_no_waiter(
    make_kernel: MakeKernel, interrupt: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    kernel, is_over = make_kernel("threads"), threading.Event()
    first = python_app(is_over.wait, data_flow_kernel=kernel)()
    second = python_app(calls.same, data_flow_kernel=kernel)(first)
    strike = interrupt(stop)
    set_cancelled = GraphFuture.set_cancelled

    def interrupted(self: GraphFuture) -> None:
        strike()
        set_cancelled(self)

    monkeypatch.setattr(GraphFuture, "set_cancelled", interrupted)
    with pytest.raises(Stopped):
        second.cancel()
    assert second.cancelled()
    is_over.set()
    kernel.wait_for_current_tasks()


def test_a_handler_makes_a_call_while_the_first_one_is_followed_to_a_checkpoint(
    make_kernel: MakeKernel, interrupt: Any
) -> None:
    kernel, made = make_kernel("engine", memoizer=BasicMemoizer(checkpoint_mode="dfk_exit")), []
    app = python_app(calls.same, data_flow_kernel=kernel, cache=True)
    strike = interrupt(lambda: made.append(app(2)))

    class Interrupted(dict[str, Any]):
        def get(self, label: str, default: Any = None) -> Any:
            found = super().get(label, default)
            strike()
            return found

    kernel.memo_fast_path._exits._open = Interrupted()
    assert app(1).result() == 1
    assert made[0].result() == 2


def test_a_handler_makes_the_first_call_of_an_app_while_a_kernel_gets_executors(
    make_kernel: MakeKernel, interrupt: Any
) -> None:
    kernel, made = make_kernel("engine"), []
    strike = interrupt(lambda: made.append(python_app(calls.same, data_flow_kernel=kernel)(1)))

    class Interrupted:
        """An app at which the signal handler runs when its fast path is forgotten."""

        def __setattr__(self, name: str, value: Any) -> None:
            strike()

    app: Any = Interrupted()
    kernel.fast_paths._apps.add(app)
    kernel.add_executors([])
    assert not list(kernel.fast_paths._apps)
    assert made[0].result() == 1
