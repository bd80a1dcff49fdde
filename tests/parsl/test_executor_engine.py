"""The engine as an executor: functions, resource specifications, losses and its end."""

from __future__ import annotations

import gc
import os
import signal
import weakref
from collections.abc import Callable, Iterator
from pathlib import Path
from types import FunctionType
from typing import Any

import pytest

import gristmill
from gristmill.parsl import GristmillExecutor

import calls
from stage import Gate

MakeEngine = Callable[..., GristmillExecutor]
#: A global variable that a task of this module reads.
threshold = 0
collected: list[int] = []


class Counted:
    """An object that counts how often it is pickled."""

    pickled = 0

    def __reduce__(self) -> tuple[Any, ...]:
        Counted.pickled += 1
        return dict, ()


@pytest.fixture
def make_engine() -> Iterator[MakeEngine]:
    """Yields a function that makes started executors, which end with the test."""
    made: list[GristmillExecutor] = []

    def make(**options: Any) -> GristmillExecutor:
        made.append(GristmillExecutor(**{"max_workers": 1, **options}))
        made[-1].start()
        return made[-1]

    yield make
    for executor in made:
        executor.shutdown(cancel_futures=True)


@pytest.fixture
def engine(make_engine: MakeEngine) -> GristmillExecutor:
    """Returns an executor of one worker."""
    return make_engine()


@pytest.fixture
def held(engine: GristmillExecutor, gate: Gate) -> GristmillExecutor:
    """Returns an executor whose worker stays in a task until the gate opens."""
    engine.submit(calls.enter, {}, gate.path)
    gate.wait_entered()
    return engine


def test_a_task_runs_in_a_worker(engine: GristmillExecutor) -> None:
    future = engine.submit(calls.pid, {})
    assert isinstance(future, gristmill.Future)
    assert future.result() != os.getpid()


def test_a_task_gets_arguments_of_any_name(engine: GristmillExecutor) -> None:
    named = {"self": 1, "func": 2, "priority": 3, "walltime": 4}
    assert engine.submit(calls.both, {}, 5, **named).result() == ((5,), named)


def test_an_initializer_runs_before_the_first_task(make_engine: MakeEngine, tmp_path: Path) -> None:
    engine = make_engine(initializer=os.chdir, initargs=(str(tmp_path),))
    assert engine.submit(os.getcwd, {}).result() == str(tmp_path)


def test_lower_priorities_run_first_and_tasks_without_one_last(
    held: GristmillExecutor, gate: Gate, tmp_path: Path
) -> None:
    path = str(tmp_path / "order")
    # Long tasks fill the worker's queue: the tasks behind them wait in order of their priority.
    for _ in range(3):
        held.submit(calls.enter, {}, gate.path)
    futures = [held.submit(calls.append, {}, path, "none")]
    for priority in (3, -2, 2**30 - 1, 0):
        specification = {"priority": priority}
        futures.append(held.submit(calls.append, specification, path, str(priority)))
    gate.open(4)
    for future in futures:
        future.result()
    assert Path(path).read_text().split() == ["-2", "0", "3", str(2**30 - 1), "none"]


def test_a_task_beyond_its_walltime_is_interrupted(engine: GristmillExecutor, gate: Gate) -> None:
    future = engine.submit(calls.enter, {"walltime": 0.05}, gate.path)
    with pytest.raises(gristmill.TaskTimeoutError):
        future.result()


@pytest.mark.parametrize(
    ("specification", "invalid"),
    [
        ({"disk": 1, "ranks": 2, "priority": 1}, {"disk", "ranks"}),
        ({"cores": 0}, {"cores"}),
        ({"priority": 0.5}, {"priority"}),
        ({"priority": True}, {"priority"}),
        ({"priority": 2**30}, {"priority"}),
        ({"walltime": 0}, {"walltime"}),
        ({"walltime": float("nan")}, {"walltime"}),
        ({"walltime": "1"}, {"walltime"}),
    ],
)
def test_a_specification_that_cannot_be_used_is_refused(
    engine: GristmillExecutor, specification: dict[str, Any], invalid: set[str]
) -> None:
    errors = pytest.importorskip("gristmill.parsl.executors.errors")
    with pytest.raises(errors.InvalidResourceSpecification) as refusal:
        engine.submit(calls.nothing, specification)
    assert refusal.value.invalid_keys == invalid


def test_a_task_whose_worker_died_says_so(engine: GristmillExecutor) -> None:
    with pytest.raises(gristmill.WorkerLostError):
        engine.submit(calls.die, {}, signal.SIGKILL).result()


def test_a_task_whose_worker_died_runs_again_if_asked_for(
    make_engine: MakeEngine, tmp_path: Path
) -> None:
    engine = make_engine(loss_retries=1)
    assert engine.submit(calls.die_first, {}, str(tmp_path / "runs"), 1).result() == 2
    again = engine.submit(calls.die_first, {"priority": 1}, str(tmp_path / "others"), 1)
    assert again.result() == 2


def test_a_function_with_a_mutable_default_is_pickled_once(engine: GristmillExecutor) -> None:
    def app(number: int, inputs: Any = Counted()) -> int:  # noqa: B008
        return number

    assert engine.submit(app, {}, 1).result() == 1
    before = Counted.pickled
    assert [engine.submit(app, {}, number).result() for number in range(5)] == [*range(5)]
    assert Counted.pickled == before


def test_a_global_that_is_bound_anew_reaches_the_next_task(
    engine: GristmillExecutor, monkeypatch: pytest.MonkeyPatch
) -> None:
    app = FunctionType((lambda: threshold).__code__, globals())
    assert engine.submit(app, {}).result() == 0
    monkeypatch.setitem(globals(), "threshold", 5)
    assert engine.submit(app, {}).result() == 5


def test_what_a_global_holds_reaches_the_next_task(
    engine: GristmillExecutor, monkeypatch: pytest.MonkeyPatch
) -> None:
    app = FunctionType((lambda: len(collected)).__code__, globals())
    own: list[int] = []
    monkeypatch.setitem(globals(), "collected", own)
    for number in range(3):
        assert engine.submit(app, {}).result() == number
        own.append(number)


def test_what_a_variable_of_an_outer_function_holds_reaches_the_next_task(
    engine: GristmillExecutor,
) -> None:
    held: dict[str, list[int]] = {"all": []}

    def app(inputs: Any = []) -> int:  # noqa: B006 - a default is compared by its identity, the variable is not
        return len(held["all"])

    for number in range(3):
        assert engine.submit(app, {}).result() == number
        held["all"].append(number)


def test_functions_that_are_made_anew_for_each_call_are_not_kept(engine: GristmillExecutor) -> None:
    def wrapped(number: int) -> Callable[[], int]:
        return lambda: number % 2

    first = wrapped(0)
    living = weakref.ref(first)
    assert engine.submit(first, {}).result() == 0
    del first
    # These are more functions than the engine's cache holds.
    assert sum(engine.submit(wrapped(number), {}).result() for number in range(1100)) == 550
    gc.collect()
    assert living() is None


def test_the_end_runs_what_waits(held: GristmillExecutor, gate: Gate) -> None:
    waiting = held.submit(calls.same, {}, "run")
    held.shutdown(block=False)
    gate.open()
    held.shutdown()
    assert waiting.result(timeout=0) == "run"
    with pytest.raises(gristmill.ShutDownError):
        held.submit(calls.nothing, {})


def test_the_end_cancels_what_waits_if_asked_for(held: GristmillExecutor, gate: Gate) -> None:
    waiting = held.submit(calls.nothing, {})
    held.shutdown(block=False, cancel_futures=True)
    assert waiting.cancelled()
    gate.open()


def test_an_executor_that_has_ended_starts_again(engine: GristmillExecutor) -> None:
    assert engine.submit(calls.same, {}, 1).result() == 1
    engine.shutdown()
    engine.start()
    assert engine.submit(calls.same, {}, 2).result() == 2
