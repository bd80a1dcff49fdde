"""Processes of the tree are killed at random while tasks run: what had not started runs, and nothing runs twice.

Each task leaves a line in a file when it begins and when it ends; the file is the witness. ``GRISTMILL_FAULT_SEEDS``
names how many seeds are tried (1 if not set); the seed is part of a test's name. A seed fixes whom the test kills, with
what, and after which result; what the tasks have done by then is up to the machine.
"""

from __future__ import annotations

import contextlib
import os
import random
import re
import signal
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest

import gristmill
from gristmill import Executor

import calls
import forks
from stage import descent, keepers

SEEDS = range(int(os.environ.get("GRISTMILL_FAULT_SEEDS", "1")))
WORKERS = 3
TASKS = 1500
KILLS = 10
SIGNALS = [signal.SIGKILL, signal.SIGSEGV, signal.SIGBUS]


def _plan(dice: random.Random, *, with_keeper: bool) -> list[str]:
    """Draws what to kill, one after the other: first the zygote and the keeper, which certainly live then."""
    first = ["zygote", "keeper"] if with_keeper else ["zygote"]
    weights = (6, 3, 2 if with_keeper else 0)
    return first + dice.choices(["worker", "zygote", "keeper"], weights, k=KILLS - len(first))


def _victims(keeper: int) -> dict[str, list[int]]:
    """The processes of a tree by what they are: a worker has a session of its own, the zygote is in the keeper's."""
    found: dict[str, list[int]] = {"keeper": [keeper], "zygote": [], "worker": []}
    for process in descent(keeper):
        with contextlib.suppress(ProcessLookupError):
            session = os.getsid(process)
            found["worker" if session == process else "zygote"].append(process)
    return found


def _kill(kind: str, keeper: int, dice: random.Random, killed: Counter[str]) -> None:
    """Kills one of its kind, or a worker if there is none: a zygote comes back only when it is needed."""
    victims = _victims(keeper)
    kind = kind if victims[kind] else "worker"
    if not victims[kind]:
        return
    try:
        os.kill(dice.choice(victims[kind]), dice.choice(SIGNALS))
        killed[kind] += 1
    except ProcessLookupError:
        killed["gone"] += 1


def _lines(path: Path) -> tuple[Counter[int], Counter[int]]:
    begun: Counter[int] = Counter()
    ended: Counter[int] = Counter()
    # A process that is killed while it writes may leave the beginning of a line in front of the next one.
    for what, number in re.findall(r"(begin|end) (\d+)\n", path.read_text()):
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
        executor.submit(calls.witness, str(path), number, dice.choice([0, 10, 1000, 20_000]))
        for number in range(TASKS)
    ]
    plan = dict(
        zip(
            sorted(dice.sample(range(TASKS), KILLS)),
            _plan(dice, with_keeper=with_keeper),
            strict=True,
        )
    )
    killed: Counter[str] = Counter()
    lost = set()
    for number, future in enumerate(futures):
        error = future.exception()
        if error is None:
            assert future.result() == number
        else:
            assert isinstance(error, gristmill.WorkerLostError), error
            lost.add(number)
        for keeper in set(keepers()) - before if number in plan else ():
            _kill(plan[number], keeper, dice, killed)
    executor.shutdown()
    print(f"seed {seed}: killed {dict(killed)}, lost {len(lost)} of {TASKS} tasks")
    begun, ended = _lines(path)
    assert not [number for number, count in begun.items() if count > 1], "without a budget, once"
    complete = set(range(TASKS)) - lost
    assert all(begun[number] == ended[number] == 1 for number in complete)
    # A worker's death costs what it had started, one task at most; the keeper's that of every worker; the zygote's none.
    assert len(lost) <= killed["worker"] + WORKERS * killed["keeper"]
    assert killed["zygote"] > 0
    assert (killed["keeper"] > 0) == with_keeper


@pytest.mark.parametrize("seed", SEEDS)
def test_nothing_is_lost_or_runs_twice_where_tasks_fork_load_nest_and_spawn(
    make_executor: Callable[..., Executor], tmp_path: Path, seed: int
) -> None:
    dice = random.Random(2000 + seed)
    path = tmp_path / "witness"
    path.touch()
    before = set(keepers())
    executor = make_executor(WORKERS)
    # Numbers of nested tasks are ten times those of their parents, and a digit.
    numbers = range(1_000_000, 1_000_000 + TASKS // 5)
    futures = {
        number: executor.submit(forks.mixed, str(path), number, dice.choice(forks.KINDS))
        for number in numbers
    }
    kills = dict(
        zip(sorted(dice.sample(numbers, KILLS)), _plan(dice, with_keeper=True), strict=True)
    )
    killed: Counter[str] = Counter()
    lost = set()
    for number, future in futures.items():
        error = future.exception()
        if error is None:
            assert future.result() == number, "the result is that of the task, not of a child"
        else:
            assert isinstance(error, gristmill.WorkerLostError), error
            lost.add(number)
        for keeper in set(keepers()) - before if number in kills else ():
            _kill(kills[number], keeper, dice, killed)
    executor.shutdown()
    print(f"seed {seed}: killed {dict(killed)}, lost {len(lost)} of {len(futures)} tasks")
    begun, ended = _lines(path)
    assert not [number for number, count in begun.items() if count > 1], "without a budget, once"
    assert not [number for number, count in ended.items() if count > 1], (
        "no child goes on as a task"
    )
    assert all(begun[number] == ended[number] == 1 for number in set(numbers) - lost)
    assert killed["zygote"] > 0
    assert killed["keeper"] > 0


@pytest.mark.parametrize("seed", SEEDS)
def test_budgets_are_kept(
    make_executor: Callable[..., Executor], tmp_path: Path, seed: int
) -> None:
    dice = random.Random(1000 + seed)
    path = tmp_path / "witness"
    before = set(keepers())
    retried = make_executor(WORKERS).options(loss_retries=2)
    futures = [
        retried.submit(calls.witness, str(path), number, dice.choice([10, 20_000]))
        for number in range(TASKS // 2)
    ]
    plan = _plan(dice, with_keeper=True)
    killed: Counter[str] = Counter()
    for number, future in enumerate(futures):
        error = future.exception()
        assert error is None or isinstance(error, gristmill.WorkerLostError)
        for keeper in set(keepers()) - before if number % (TASKS // 2 // KILLS) == 0 else ():
            _kill(plan[number * KILLS // (TASKS // 2)], keeper, dice, killed)
    print(f"seed {seed}: killed {dict(killed)}")
    begun, ended = _lines(path)
    for number, future in enumerate(futures):
        assert begun[number] <= 3
        if future.exception() is None:
            assert ended[number] >= 1
    assert killed["zygote"] > 0
    assert killed["keeper"] > 0
