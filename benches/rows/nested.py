"""A task that submits a task and waits for it: on its own worker, and on another one."""

from __future__ import annotations

from functools import partial
from time import perf_counter

import gristmill
from benches.engines.base import Engine
from benches.harness import Measure, sized
from benches.model import ALONE, Goal, Line, Recording, Settings
from benches.rows.contests import ContestRow
from benches.work import noop

#: The children of a function after which it may run on its parent's worker.
TRUSTED = 200


class NestedRow(ContestRow):
    """Calls that a task waits for, timed in the task.

    A function that has often ended without a death runs on its parent's worker. A call with a budget never does.
    """

    key = "nested"
    title = "call and wait in a task"
    workers = 2
    unit = "s"
    better = "lower"

    def lines(self) -> list[Line]:
        return [
            Line(f"{self.title}, its own worker", ALONE, "lower", "ours own", must=Goal(4e-6)),
            Line(f"{self.title}, another worker", ALONE, "lower", "ours other", must=Goal(2e-4)),
        ]

    def side(self, settings: Settings, key: str, engine: Engine, recording: Recording) -> Measure:
        submit, result = engine.submit, engine.result
        budgets = {"own": 0, "other": 1}

        def run(losses: int, count: int) -> float:
            took: float = result(submit(calls, count, losses))
            return took

        counts = {place: sized(settings, partial(run, losses)) for place, losses in budgets.items()}
        recording.parameters |= {f"{key} {place} calls": count for place, count in counts.items()}

        def sample() -> dict[str, float]:
            return {
                f"{key} {place}": run(losses, counts[place]) / counts[place]
                for place, losses in budgets.items()
            }

        return sample


def calls(count: int, losses: int) -> float:
    """Returns the seconds that a task spends on calls, once their function is trusted."""
    executor = gristmill.current_executor()
    for _ in range(TRUSTED):
        executor.submit(noop, 0).result()
    submit = executor.options(loss_retries=losses).submit if losses else executor.submit
    start = perf_counter()
    for number in range(count):
        submit(noop, number).result()
    return perf_counter() - start
