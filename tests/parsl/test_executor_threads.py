"""Tasks in threads."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import pytest

from gristmill.parsl import ThreadPoolExecutor


@pytest.fixture
def threads() -> Iterator[ThreadPoolExecutor]:
    """Yields a started executor of two threads."""
    with ThreadPoolExecutor() as executor:
        executor.start()
        yield executor


def test_a_task_runs_in_a_thread_of_this_process(threads: ThreadPoolExecutor) -> None:
    name = threads.submit(lambda: threading.current_thread().name, {}).result()
    assert name.startswith("ThreadPoolExecutor-threads")


def test_threads_are_named_as_asked_for() -> None:
    with ThreadPoolExecutor(thread_name_prefix="mine") as executor:
        executor.start()
        name = executor.submit(lambda: threading.current_thread().name, {}).result()
        assert name.startswith("mine")


def test_a_task_gets_arguments_of_any_name(threads: ThreadPoolExecutor) -> None:
    named = {"self": 1, "func": 2, "block": 3}
    assert threads.submit(lambda *args, **kwargs: (args, kwargs), {}, 4, **named).result() == (
        (4,),
        named,
    )


def test_threads_refuse_every_resource_specification(threads: ThreadPoolExecutor) -> None:
    errors = pytest.importorskip("gristmill.parsl.executors.errors")
    with pytest.raises(errors.InvalidResourceSpecification) as refusal:
        threads.submit(print, {"cores": 2, "priority": 1})
    assert refusal.value.invalid_keys == {"cores", "priority"}


def test_a_task_before_the_start_is_refused() -> None:
    with pytest.raises(RuntimeError, match="not been started"):
        ThreadPoolExecutor().submit(print, {})


def test_the_end_waits_for_tasks_that_wait() -> None:
    executor = ThreadPoolExecutor(max_threads=1)
    executor.start()
    leave = threading.Event()
    running = executor.submit(leave.wait, {})
    waiting = executor.submit(lambda: "run", {})
    executor.shutdown(block=False)
    assert not running.done()
    leave.set()
    executor.shutdown()
    assert waiting.result(timeout=0) == "run"
    with pytest.raises(RuntimeError):
        executor.submit(print, {})
