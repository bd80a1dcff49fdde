"""Simulations of balls obey the laws of nature, repeat exactly, and report wrong results."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from gristmill_bench import BenchError, ExecutorPlugin, WrongResult
from gristmill_bench.apps import hills
from gristmill_bench.apps.hills import RADIUS_M
from gristmill_bench.apps.physics import Physics
from gristmill_bench.plugins import make

from applications import EXECUTORS, run

FEW_BALLS = Physics(simulations=3, balls=4, ticks=100)
#: First column of each quantity in a state.
POSITION, VELOCITY, SPIN = 0, 3, 6


@pytest.mark.parametrize("executor", EXECUTORS, ids=lambda one: type(one).__name__)
def test_balls_come_to_rest_on_any_executor(executor: ExecutorPlugin, tmp_path: Path) -> None:
    says = FEW_BALLS.check(run(FEW_BALLS, tmp_path, executor))
    assert says.startswith("12 balls after ")
    assert ": 0 roll" in says


def spoilt(states: Any, since: int, column: int, value: float) -> Any:
    """Returns the states with one column of the first ball increased from one state on."""
    changed = states.copy()
    changed[since:, 0, column] += value
    return changed


@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        (lambda states: spoilt(states, -1, POSITION + 2, -RADIUS_M), "in the ground"),
        (lambda states: spoilt(states, -1, POSITION + 2, RADIUS_M), "energy grows"),
        (lambda states: spoilt(states, -1, POSITION + 2, 0.4 * RADIUS_M), "rests on nothing"),
        (lambda states: spoilt(states, -1, VELOCITY, 0.1), "still roll"),
        (lambda states: spoilt(states, 5, SPIN, 100.0), "energy grows"),
        (lambda states: spoilt(states, 0, POSITION, 0.01), "not dropped"),
        (lambda states: spoilt(states, -1, SPIN, 1e-9), "when it is repeated"),
        (lambda states: spoilt(states, -1, VELOCITY, float("nan")), "no numbers"),
        (lambda states: states[:1], "of shape"),
        (lambda states: states[:5], "still roll at the end"),
    ],
)
def test_what_nature_does_not_do_is_seen(wrong: Any, says: str) -> None:
    app = FEW_BALLS.model_copy(update={"simulations": 1})
    states = run(app)
    with pytest.raises(WrongResult, match=says):
        app.check([wrong(states[0])])


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"GRAVITY": 0.0}, "rests on nothing"),
        ({"_ROLLING_M": 0.0}, "still roll"),
        ({"_HEIGHT_M": 1.0}, "in the ground|rests on nothing"),
    ],
    ids=str,
)
def test_a_world_with_other_laws_is_seen(
    change: dict[str, float], says: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        for name, value in change.items():
            patch.setattr(hills, name, value)
        states = run(FEW_BALLS)
    with pytest.raises(WrongResult, match=says):
        FEW_BALLS.check(states)


def test_each_simulation_is_another_one() -> None:
    results = run(FEW_BALLS)
    assert len({states.tobytes() for states in results}) == 3
    with pytest.raises(WrongResult, match="not dropped"):
        FEW_BALLS.check([results[0], results[0], results[2]])
    with pytest.raises(WrongResult, match="2 simulations instead of 3"):
        FEW_BALLS.check(results[:2])


def test_a_simulation_ends_when_its_balls_have_rested_for_a_second() -> None:
    states = run(FEW_BALLS)[0]
    world = FEW_BALLS.worlds()[0]
    assert len(states) < len(world.steps())
    moving = [bool(hills.rolling(world, state).any()) for state in states]
    assert moving[-11:] == [True] + 10 * [False]


def test_a_simulation_may_end_while_balls_roll() -> None:
    short = FEW_BALLS.model_copy(update={"seconds": 1.5})
    says = short.check(run(short))
    assert says.startswith("12 balls after 1.5 s: ")
    assert ": 0 roll" not in says


@pytest.mark.parametrize(
    ("fields", "says"),
    [
        ({"balls": 1000, "size": 3}, "1000 balls do not fit"),
        ({"ticks": 50}, "app.ticks"),
        ({"seconds": 0.1}, "app.seconds"),
    ],
)
def test_what_makes_no_sense_is_refused(fields: dict[str, Any], says: str) -> None:
    if missing := Physics.missing():
        pytest.skip(missing)
    with pytest.raises(BenchError, match=says):
        make("app", "physics", fields)
