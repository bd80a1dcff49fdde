"""A failed run ends soon, on each executor: tasks that have not begun never begin."""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Iterator
from concurrent.futures import CancelledError
from pathlib import Path
from typing import Any

import pytest

from gristmill_bench.executors.base import ExecutorPlugin
from gristmill_bench.executors.batches import Batches
from gristmill_bench.executors.here import Threads
from gristmill_bench.plugins import find, make

#: Tasks that wait. Some executors hand out a few tasks more than they have workers.
WAITING = 20


def stay(gate: str, begun: str) -> None:
    Path(begun).touch()
    while os.path.exists(gate):
        time.sleep(0.001)


def leave_sign(path: str) -> None:
    Path(path).touch()


@pytest.mark.parametrize(
    "name",
    [
        "gristmill",
        "threads",
        "processes",
        "pool",
        pytest.param("loky", marks=pytest.mark.slow),
        pytest.param("gristmill-parsl", marks=pytest.mark.slow),
        pytest.param("parsl", marks=pytest.mark.slow),
    ],
)
def test_what_waits_when_a_run_has_failed_is_not_begun(name: str, tmp_path: Path) -> None:
    missing = find("executor", name).missing()
    if missing is not None:
        pytest.skip(missing)
    fields = {"executor": "threads"} if name == "parsl" else {}
    plugin = make("executor", name, {"workers": 1, **fields})
    assert isinstance(plugin, ExecutorPlugin)
    backend = plugin.open()
    gate, begun = tmp_path / "gate", tmp_path / "begun"
    gate.touch()
    backend.submit(stay, str(gate), str(begun))
    signs = [tmp_path / f"sign-{number}" for number in range(WAITING)]
    waiting = [backend.submit(leave_sign, str(sign)) for sign in signs]
    behind = backend.submit(leave_sign, waiting[-1])
    while not begun.exists():
        time.sleep(0.001)
    # Running tasks continue until the waiting tasks have ended.
    behind.add_done_callback(lambda _: gate.unlink())
    backend.shutdown()
    assert not signs[-1].exists()


def fail_when_told(gate: str) -> None:
    stay(gate, os.devnull)
    raise ValueError("the first of many")


def hand_on(value: object) -> object:
    return value


def test_a_long_chain_ends_with_what_its_first_task_has_raised(tmp_path: Path) -> None:
    gate = tmp_path / "gate"
    gate.touch()
    backend = Threads(workers=1).open()
    last = backend.submit(fail_when_told, str(gate))
    for _ in range(2 * sys.getrecursionlimit()):
        last = backend.submit(hand_on, last)
    gate.unlink()
    assert str(last.exception(60)) == "the first of many"
    backend.shutdown()


class Held:
    """An executor whose maps yield nothing until they are cancelled."""

    def __init__(self) -> None:
        self.is_cancelled = threading.Event()

    def map(self, function: Any, calls: Any) -> Iterator[Any]:
        self.is_cancelled.wait()
        raise CancelledError
        yield

    def shutdown(self, wait: bool, *, cancel_futures: bool) -> None:
        if cancel_futures:
            self.is_cancelled.set()


def test_calls_that_were_gathered_are_cancelled_as_those_that_were_sent() -> None:
    batches = Batches(Held(), 2)
    calls = [batches.submit(abs, number) for number in range(5)]
    batches.shutdown(cancel_futures=True)
    assert [type(one.exception()) for one in calls] == [CancelledError] * 5
