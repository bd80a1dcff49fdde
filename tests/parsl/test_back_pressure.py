"""``Config.task_limit``: a program that submits faster than its tasks end has to wait."""

from __future__ import annotations

import signal
import threading
from concurrent.futures import wait
from typing import Any

import pytest

from gristmill.parsl import join_app, python_app
from gristmill.parsl._kernel import back_pressure
from gristmill.parsl.dataflow.states import FINAL_STATES
from gristmill.parsl.errors import NoDataFlowKernelError

import calls
from stage import Gate


@pytest.fixture
def limited(make_kernel: Any) -> Any:
    """Returns a kernel on threads with a limit of three tasks."""
    return make_kernel("threads", task_limit=3)


def fill(kernel: Any, gate: Gate) -> list[Any]:
    """Submits three tasks, two of which run."""
    held = [python_app(calls.enter, data_flow_kernel=kernel)(gate.path) for _ in range(3)]
    for _ in range(2):
        gate.wait_entered()
    return held


def test_a_call_waits_until_a_task_is_final(limited: Any, hold: Gate) -> None:
    held = fill(limited, hold)
    # This thread waits in the call, so another thread opens the gate once it sees the wait.
    waiting = limited._graph.task_states.back_pressure

    def open_when_waiting() -> None:
        while not waiting._waiting:
            threading.Event().wait(0)
        assert not any(one.done() for one in held)
        hold.open()

    opener = threading.Thread(target=open_when_waiting)
    opener.start()
    future = python_app(calls.same, data_flow_kernel=limited)(5)
    opener.join()
    assert sum(one.done() for one in held) >= 1
    hold.open(2)
    assert future.result() == 5


def test_there_are_never_more_tasks_than_the_limit(limited: Any) -> None:
    most = []
    app = python_app(calls.same, data_flow_kernel=limited)
    for number in range(200):
        app(number)
        counts = limited.task_state_counts.items()
        most.append(sum(count for state, count in counts if state not in FINAL_STATES))
    assert max(most) <= 3
    limited.wait_for_current_tasks()
    assert limited.task_count == 200


def test_without_a_limit_as_many_tasks_may_be_outstanding_as_memory_has_room_for(
    make_kernel: Any,
    hold: Gate,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    monkeypatch.setattr(back_pressure, "memory_size", lambda: 4 * 2500 * 3)
    kernel = make_kernel("threads")
    test_a_call_waits_until_a_task_is_final(kernel, hold)
    app = python_app(calls.same, data_flow_kernel=kernel)
    for number in range(20):
        app(number)
    (warning,) = (one for one in caplog.records if one.levelname == "WARNING")
    assert "the program waits: 3 tasks are outstanding" in warning.getMessage()
    assert "Config(task_limit=...)" in warning.getMessage()


@pytest.mark.usefixtures("interrupts")
def test_an_interrupt_ends_the_wait_and_submits_nothing(limited: Any, hold: Gate) -> None:
    fill(limited, hold)
    waiting = limited._graph.task_states.back_pressure

    def interrupt_when_waiting() -> None:
        while not waiting._waiting:
            threading.Event().wait(0)
        signal.pthread_kill(threading.main_thread().ident, signal.SIGINT)

    interrupter = threading.Thread(target=interrupt_when_waiting)
    interrupter.start()
    with pytest.raises(KeyboardInterrupt):
        python_app(calls.same, data_flow_kernel=limited)(5)
    interrupter.join()
    assert limited.task_count == 3
    hold.open(3)
    limited.wait_for_current_tasks()
    assert python_app(calls.same, data_flow_kernel=limited)(6).result() == 6


def test_the_end_of_the_kernel_ends_the_wait(limited: Any, hold: Gate) -> None:
    fill(limited, hold)
    waiting = limited._graph.task_states.back_pressure

    def end_when_waiting() -> None:
        while not waiting._waiting:
            threading.Event().wait(0)
        limited.cleanup()

    ender = threading.Thread(target=end_when_waiting)
    ender.start()
    with pytest.raises(NoDataFlowKernelError):
        python_app(calls.same, data_flow_kernel=limited)(5)
    hold.open(3)
    ender.join()


def test_callbacks_do_not_wait(limited: Any, hold: Gate) -> None:
    held = fill(limited, hold)
    app = python_app(calls.same, data_flow_kernel=limited)
    made: list[Any] = []
    was_called = threading.Event()

    def submit_more(_: object) -> None:
        made.extend(app(number) for number in range(10))
        was_called.set()

    held[0].add_done_callback(submit_more)
    hold.open(3)
    was_called.wait()
    assert [one.result() for one in made] == list(range(10))


def test_bodies_of_join_apps_and_tasks_in_threads_do_not_wait(limited: Any) -> None:
    app = python_app(calls.same, data_flow_kernel=limited)
    joining = join_app(lambda: [app(number) for number in range(20)], data_flow_kernel=limited)
    assert joining().result() == list(range(20))
    nested = python_app(lambda: [app(number) for number in range(20)], data_flow_kernel=limited)
    assert [one.result() for one in nested().result()] == list(range(20))


def test_parts_of_values_and_staging_do_not_wait_for_each_other(
    make_kernel: Any, tmp_path: Any
) -> None:
    import gristmill.parsl as parsl
    from gristmill.parsl.data_provider.staging import Staging

    class Copying(Staging):
        """A staging provider that moves each file by a task of its own, after the app."""

        def can_stage_out(self, file: Any) -> bool:
            return True

        def stage_out(self, dm: Any, executor: str, file: Any, app_fu: Any) -> Any:
            move = python_app(lambda done, parent: done, data_flow_kernel=dm.dfk)
            return move(str(file), parent=app_fu)

    executor = parsl.ThreadPoolExecutor(label="here", storage_access=[Copying()])
    kernel = make_kernel("threads", task_limit=1, executors=[executor])
    app = python_app(lambda outputs=(): 5, data_flow_kernel=kernel)
    files = [parsl.File(str(tmp_path / name)) for name in "abc"]
    future = app(outputs=files)
    assert future.result() == 5
    assert [one.result() for one in future.outputs] == files


def test_plain_calls_on_the_engine_have_the_limit_of_the_engine(
    make_kernel: Any, hold: Gate
) -> None:
    kernel = make_kernel("engine", task_limit=1)
    held = [python_app(calls.enter, data_flow_kernel=kernel)(hold.path) for _ in range(5)]
    hold.open(5)
    wait(held)
