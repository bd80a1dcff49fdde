"""Contexts and plain tasks share the workers of nodes and leases as they share the workers of this machine."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from pathlib import Path
from typing import Any

import pytest

from gristmill import Context, Executor, Lease, on

import calls
import setups
from stage import Gate, wait_until_received

#: Plain tasks that wait when a call is submitted. The call waits for a tenth of a second of them and for the running
#: task: a small part.
PLAIN = 60
#: Steps that each of them counts: some hundredths of a second.
STEPS = 1_000_000

Make = Callable[..., Executor]
Submit = Callable[..., Future[Any]]

PLACES: dict[str, Callable[[], Executor]] = {
    "here": lambda: Executor(1),
    "on a node": lambda: Executor(nodes=on.local(1, 1)),
    "lease": lambda: Lease(max_workers=1),
    "lease on a node": lambda: Lease(nodes=on.local(1, 1), max_workers=1),
}


@pytest.fixture(params=PLACES)
def place(request: pytest.FixtureRequest) -> Iterator[Executor]:
    """Yields an executor with one worker."""
    with PLACES[request.param]() as executor:
        executor.submit(calls.nothing).result()
        yield executor
        executor.shutdown(cancel_futures=True)


def begun(note: str) -> list[str]:
    """Returns the names of the begun tasks, in order."""
    lines = Path(note).read_text().split("\n")
    return [line for line in lines if line and not line.startswith("end")]


def overtaken(many: Submit, one: Submit, note: str) -> int:
    """Submits ``PLAIN`` calls by ``many`` and then one by ``one``; returns how many of them begin before that one."""
    others = [many(calls.witness, note, number, STEPS) for number in range(PLAIN)]
    one(calls.append, note, "one").result()
    for future in others:
        future.cancel()
    return begun(note).index("one")


def test_a_call_in_a_context_begins_after_no_more_than_its_share_of_the_plain_tasks_before_it(
    place: Executor, tmp_path: Path
) -> None:
    options = place.options(context=Context(setups.word, "hello"))
    before = overtaken(place.submit, options.submit, str(tmp_path / "note"))
    assert before < PLAIN // 2, "most of the plain tasks come after it"


def test_a_plain_task_begins_after_no_more_than_its_share_of_the_calls_before_it(
    place: Executor, tmp_path: Path
) -> None:
    options = place.options(context=Context(setups.word, "hello"))
    before = overtaken(options.submit, place.submit, str(tmp_path / "note"))
    assert before < PLAIN // 2, "most of the calls come after it"


def test_a_stream_of_plain_tasks_does_not_keep_calls_in_a_context_from_a_worker(
    place: Executor, tmp_path: Path
) -> None:
    context = Context(setups.word, "hello")
    note = str(tmp_path / "note")
    is_over = threading.Event()

    def witness(number: int) -> int:
        return calls.witness(note, number, STEPS)

    def numbers() -> Iterator[int]:
        number = 0
        while not is_over.is_set():
            yield number
            number += 1

    def stream() -> None:
        tasks = place.map(witness, numbers(), buffersize=500)
        while not is_over.is_set():
            next(tasks)

    thread = threading.Thread(target=stream)
    thread.start()
    try:
        for number in range(3):
            place.options(context=context).submit(calls.append, note, f"call {number}").result()
    finally:
        is_over.set()
        thread.join()
    order = begun(note)
    waits = [order.index(f"call {number}") for number in range(3)]
    assert waits[2] < 3 * PLAIN // 2, (
        "each waits for a part of a tenth of a second, not for the stream"
    )


def test_a_call_reaches_a_node_whose_workers_have_plain_tasks_enough(
    make_executor: Make, gate: Gate
) -> None:
    executor = make_executor(1, nodes=on.local(2, 1))
    plain = [executor.submit(calls.enter, gate.path) for _ in range(20)]
    gate.wait_entered()
    gate.wait_entered()
    context = Context(setups.word, "hello")
    called = executor.options(context=context).submit(lambda: context["word"])
    assert "is with node" in executor.explain(called)
    assert "waits for a worker" in executor.explain(plain[-1])
    wait_until_received(executor)
    gate.open(20)
    assert called.result() == "hello"
    for future in plain:
        future.result()


def test_calls_beyond_their_share_wait_here_and_say_so(make_executor: Make, gate: Gate) -> None:
    executor = make_executor(1, nodes=on.local(1, 1))
    plain = [executor.submit(calls.enter, gate.path) for _ in range(20)]
    gate.wait_entered()
    context = Context(setups.word, "hello", name="greeting")
    called = [executor.options(context=context).submit(lambda: context["word"]) for _ in range(20)]
    said = executor.explain(called[-1])
    assert 'waits for a worker with context "greeting"' in said
    assert "tasks for 1 worker" in said
    assert called[-1].cancel()
    gate.open(20)
    assert [future.result() for future in called[:-1]] == ["hello"] * 19
    for future in plain:
        future.result()
