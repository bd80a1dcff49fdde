"""Processes of the tree are killed at random while tasks run: what had not started runs, and nothing runs twice.

Each task leaves a line in a file when it begins and when it ends; the file is the witness. ``GRISTMILL_FAULT_SEEDS``
names how many seeds are tried (2 if not set).
"""

from __future__ import annotations

import os
import random
import signal
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest

import gristmill
from gristmill import Executor

import calls
from stage import descent, keepers

SEEDS = range(int(os.environ.get("GRISTMILL_FAULT_SEEDS", "2")))
WORKERS = 3
TASKS = 4000
KILLS = 12


def witness(path: str, number: int, steps: int) -> int:
    """Says that it begins, works a little, says that it ends."""
    calls.append(path, f"begin {number}")
    total = 0
    for step in range(steps):
        total += step
    calls.append(path, f"end {number}")
    return number


def _kill_one(keeper: int, dice: random.Random, kinds: Counter[str], *, with_keeper: bool) -> None:
    """Kills the keeper, or any process below it."""
    takes_keeper = with_keeper and dice.random() < 0.2
    victim = keeper if takes_keeper else dice.choice(descent(keeper) or [0])
    try:
        if victim:
            os.kill(victim, dice.choice([signal.SIGKILL, signal.SIGSEGV, signal.SIGBUS]))
            kinds["keeper" if takes_keeper else "other"] += 1
    except ProcessLookupError:
        kinds["gone"] += 1


def _lines(path: Path) -> tuple[Counter[int], Counter[int]]:
    begun: Counter[int] = Counter()
    ended: Counter[int] = Counter()
    for line in path.read_text().splitlines():
        what, number = line.split()
        (begun if what == "begin" else ended)[int(number)] += 1
    return begun, ended


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("with_keeper", [False, True])
def test_nothing_runs_twice_and_what_had_not_started_runs(
    make_executor: Callable[..., Executor], tmp_path: Path, seed: int, with_keeper: bool
) -> None:
    dice = random.Random(seed)
    path = tmp_path / "witness"
    before = set(keepers())
    executor = make_executor(WORKERS)
    futures = [
        executor.submit(witness, str(path), number, dice.choice([0, 10, 1000, 20_000]))
        for number in range(TASKS)
    ]
    moments = sorted(dice.sample(range(TASKS), KILLS), reverse=True)
    kinds: Counter[str] = Counter()
    lost = set()
    for number, future in enumerate(futures):
        while moments and moments[-1] <= number:
            moments.pop()
            for keeper in set(keepers()) - before:
                _kill_one(keeper, dice, kinds, with_keeper=with_keeper)
        error = future.exception()
        if error is None:
            assert future.result() == number
        else:
            assert isinstance(error, gristmill.WorkerLost), error
            lost.add(number)
    executor.shutdown()
    begun, ended = _lines(path)
    assert not [number for number, count in begun.items() if count > 1], "without a budget, once"
    complete = set(range(TASKS)) - lost
    assert all(begun[number] == ended[number] == 1 for number in complete)
    # A death costs what its worker had started, one task at most; the keeper's costs that of every worker.
    assert len(lost) <= kinds["other"] + WORKERS * kinds["keeper"], kinds
    assert kinds["other"] + kinds["keeper"] > 0


@pytest.mark.parametrize("seed", SEEDS)
def test_budgets_are_kept(
    make_executor: Callable[..., Executor], tmp_path: Path, seed: int
) -> None:
    dice = random.Random(1000 + seed)
    path = tmp_path / "witness"
    before = set(keepers())
    executor = make_executor(WORKERS)
    retried = executor.options(loss_retries=2)
    futures = [
        retried.submit(witness, str(path), number, dice.choice([10, 20_000]))
        for number in range(TASKS // 2)
    ]
    kinds: Counter[str] = Counter()
    for number, future in enumerate(futures):
        if number % (TASKS // 2 // KILLS) == 0:
            for keeper in set(keepers()) - before:
                _kill_one(keeper, dice, kinds, with_keeper=True)
        error = future.exception()
        assert error is None or isinstance(error, gristmill.WorkerLost)
    executor.shutdown()
    begun, ended = _lines(path)
    for number, future in enumerate(futures):
        assert begun[number] <= 3
        if future.exception() is None:
            assert ended[number] >= 1
    assert kinds["other"] + kinds["keeper"] > 0
