"""First calls of an executor: from several threads at the same time, and from signal handlers in the middle of another
first call.
"""

from __future__ import annotations

import socket
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

import gristmill._completion
from gristmill import Executor, StartError, on

import calls
from stage import Script, keepers

#: A program whose signal handler is called in the middle of the first call, at the first step of the named function.
_INTERRUPTED = """
    import signal, sys, threading
    import calls, gristmill
    from stage import keepers

    found = []
    is_over = threading.Event()

    def on_signal(number, frame):
        found.append(executor.submit(calls.same, 2))
        found.append(executor.map(calls.same, [3]))
        is_over.set()

    # A thread of its own places nodes; handlers run in this one.
    place = gristmill.Executor._place_nodes

    def place_interrupted(*terms):
        signal.raise_signal(signal.SIGUSR1)
        is_over.wait()
        place(*terms)

    if sys.argv[1] == "_place_nodes":
        gristmill.Executor._place_nodes = place_interrupted

    def profile(frame, event, argument):
        if frame.f_code.co_name == sys.argv[1]:
            sys.setprofile(None)
            signal.raise_signal(signal.SIGUSR1)

    signal.signal(signal.SIGUSR1, on_signal)
    executor = gristmill.Executor(1, nodes=gristmill.on.local(1) if "nodes" in sys.argv else None)
    sys.setprofile(profile)
    first = executor.submit(calls.same, 1)
    sys.setprofile(None)
    submitted, mapped = found
    print(first.result(), submitted.result(), *mapped, len(keepers()))
    executor.shutdown()
    print(len(keepers()))
"""


@pytest.mark.parametrize(
    "interrupted",
    [
        ("_describe_worker_environment",),
        ("prepare",),
        ("_describe_worker_environment", "nodes"),
        ("_place_nodes", "nodes"),
        ("prepare", "nodes"),
    ],
    ids="-".join,
)
def test_a_signal_handler_in_the_middle_of_the_first_call_can_make_calls(
    interrupted: tuple[str, ...], script: Script
) -> None:
    assert script.run(_INTERRUPTED, *interrupted) == "1 2 3 1\n0\n"


def test_two_threads_that_make_the_first_call_have_one_engine(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    both_start = threading.Barrier(2)
    describe = Executor._describe_worker_environment

    def describe_with_the_other(*arguments: Any) -> Any:
        both_start.wait()
        return describe(*arguments)

    monkeypatch.setattr(Executor, "_describe_worker_environment", describe_with_the_other)
    before = keepers()
    with Executor(1) as executor, ThreadPoolExecutor(2) as threads:
        firsts = [threads.submit(executor.submit, calls.same, number) for number in range(2)]
        assert [first.result().result() for first in firsts] == [0, 1]
        assert len(keepers()) == len(before) + 1
    assert keepers() == before


def test_an_executor_that_is_shut_down_while_it_starts_starts_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    describe = Executor._describe_worker_environment

    def describe_a_closed_one(executor: Executor, *arguments: Any) -> Any:
        executor.shutdown()
        return describe(executor, *arguments)

    monkeypatch.setattr(Executor, "_describe_worker_environment", describe_a_closed_one)
    before = keepers()
    executor = Executor(1)
    with pytest.raises(RuntimeError, match="after shutdown"):
        executor.submit(calls.nothing)
    assert keepers() == before


def test_shutdown_waits_for_callbacks_although_two_threads_asked_for_the_first_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    is_asked, is_called = threading.Event(), threading.Event()
    make = gristmill._completion.Registry.__init__

    def make_behind_the_other(registry: Any, engine: Any) -> None:
        if threading.current_thread() is slower:
            is_asked.set()
            is_called.wait()
        make(registry, engine)

    monkeypatch.setattr(gristmill._completion.Registry, "__init__", make_behind_the_other)
    executor = Executor(1)
    future = executor.submit(calls.same, 1)
    done: list[int] = []

    def take(future: Any) -> None:
        threading.Event().wait(0.1)
        done.append(future.result())

    slower = threading.Thread(target=future.add_done_callback, args=(take,))
    slower.start()
    is_asked.wait()
    future.add_done_callback(take)
    is_called.set()
    slower.join()
    executor.shutdown()
    assert done == [1, 1]


def test_no_task_waits_for_nodes_where_no_thread_can_listen() -> None:
    with (
        socket.create_server(("127.0.0.1", 0)) as taken,
        Executor(nodes=on.local(1, network=on.Network(port=taken.getsockname()[1]))) as executor,
    ):
        with pytest.raises(StartError, match="use"):
            executor.submit(calls.nothing)
        with pytest.raises(StartError, match="use"):
            executor.submit(calls.nothing).result()


def test_no_task_waits_for_nodes_whose_placement_was_interrupted(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(Executor, "_place_nodes", interrupt)
    with Executor(nodes=on.local(1)) as executor:
        with pytest.raises(KeyboardInterrupt):
            executor.submit(calls.nothing)
        with pytest.raises(StartError, match="no node will join: KeyboardInterrupt"):
            executor.submit(calls.nothing).result()
