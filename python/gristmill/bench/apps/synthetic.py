"""Tasks that do nothing but take time and carry bytes, in one of four graphs (TaPS, section III-E).

A *bag* has no dependencies and a bounded number of tasks in flight; a *diamond* is one task, then many, then one; a
*reduce* is many, then one; a *sequence* is a chain.
"""

from __future__ import annotations

import random
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field, model_validator

from gristmill.bench.apps.base import App
from gristmill.bench.engine import Engine, TaskFuture
from gristmill.bench.errors import WrongResult


def work(number: int, size: int, seconds: float, *parents: bytes) -> bytes:
    """A task: sleeps, and returns bytes that begin with how many bytes it was given."""
    if seconds:
        time.sleep(seconds)
    given = sum(map(len, parents))
    return given.to_bytes(8, "little") + number.to_bytes(8, "little") + bytes(size)


class Synthetic(App):
    """Tasks without a purpose: what is left is what the executor costs."""

    structure: Literal["bag", "diamond", "reduce", "sequence"] = "bag"
    tasks: Annotated[int, Field(ge=3)] = 1000
    #: Bytes that each task returns, besides sixteen.
    size: Annotated[int, Field(ge=0)] = 0
    #: Bytes that the program gives each task; others than it gives the next, lest an engine sends them once for all.
    given: Annotated[int, Field(ge=0)] = 0
    #: Seconds that each task sleeps, and the standard deviation of these.
    sleep: Annotated[float, Field(ge=0)] = 0.0
    sleep_std: Annotated[float, Field(ge=0)] = 0.0
    #: Tasks of a bag in flight at the same time; all of them if not given.
    in_flight: Annotated[int, Field(ge=1)] | None = None
    seed: int = 1

    @model_validator(mode="after")
    def _only_bags_are_bounded(self) -> Synthetic:
        if self.in_flight is not None and self.structure != "bag":
            raise ValueError(f"in_flight is for a bag, and the structure is a {self.structure}")
        return self

    def run(self, engine: Engine, folder: Path) -> list[bytes]:
        """Gives what the last tasks have returned: of a bag, all."""
        submit = _Submitter(engine, self)
        match self.structure:
            case "bag":
                return [task.result() for task in self._bag(engine, submit)]
            case "sequence":
                task = submit()
                for _ in range(self.tasks - 1):
                    task = submit(task)
                return [task.result()]
            case "reduce":
                return [submit(*[submit() for _ in range(self.tasks - 1)]).result()]
            case "diamond":
                first = submit()
                return [submit(*[submit(first) for _ in range(self.tasks - 2)]).result()]

    def _bag(self, engine: Engine, submit: _Submitter) -> Iterator[TaskFuture[bytes]]:
        first = min(self.in_flight or self.tasks, self.tasks)
        ended = engine.stream(submit() for _ in range(first))
        for task in ended:
            if submit.count < self.tasks:
                ended.add(submit())
            yield task

    def check(self, result: list[bytes]) -> str:
        """All tasks have run once, and what they were given has arrived."""
        numbers = sorted(int.from_bytes(one[8:16], "little") for one in result)
        given = int.from_bytes(result[-1][:8], "little")
        last, parents = {
            "bag": (list(range(self.tasks)), 0),
            "sequence": ([self.tasks - 1], 1),
            "reduce": ([self.tasks - 1], self.tasks - 1),
            "diamond": ([self.tasks - 1], self.tasks - 2),
        }[self.structure]
        size = 16 + self.size
        expected = parents * size + self.given
        if numbers != last or given != expected or any(len(one) != size for one in result):
            raise WrongResult(
                f"the {self.structure} of {self.tasks} tasks ended with {len(numbers)}, the last of which was given "
                f"{given} bytes instead of {expected}"
            )
        return f"{self.structure} of {self.tasks} tasks"


class _Submitter:
    """Submits the next task."""

    def __init__(self, engine: Engine, app: Synthetic) -> None:
        self._engine = engine
        self._app = app
        self._random = random.Random(app.seed)
        self.count = 0

    def __call__(self, *parents: TaskFuture[bytes]) -> TaskFuture[bytes]:
        app, number = self._app, self.count
        self.count += 1
        seconds = app.sleep
        if app.sleep_std:
            seconds = max(0.0, self._random.gauss(app.sleep, app.sleep_std))
        if not app.given:
            return self._engine.submit(work, number, app.size, seconds, *parents)
        own = number.to_bytes(8, "little").ljust(app.given, b"x")[: app.given]
        return self._engine.submit(work, number, app.size, seconds, own, *parents)
