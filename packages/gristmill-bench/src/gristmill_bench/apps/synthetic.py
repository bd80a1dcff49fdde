"""Tasks that do nothing but take time and carry bytes, in one of four graphs (TaPS, section III-E).

A *bag* has no dependencies and a bounded number of tasks in flight. A *diamond* is one task, then many, then one. A
*reduce* is many tasks, then one. A *sequence* is a chain.
"""

from __future__ import annotations

import random
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from itertools import count
from pathlib import Path
from typing import Annotated, Any, Literal
from zlib import crc32

from pydantic import Field, model_validator

from gristmill_bench.apps.base import App
from gristmill_bench.engine import Engine, TaskFuture
from gristmill_bench.errors import WrongResult

#: Bytes of the head with which each result begins.
_HEAD_SIZE = 16


def work(number: int, size: int, seconds: float, *parents: bytes) -> bytes:
    """Runs a task: sleeps, and returns bytes that begin with a head."""
    if seconds:
        time.sleep(seconds)
    return head(number, sum(map(len, parents)), parents) + bytes(size)


def head(number: int, given: int, parents: Iterable[bytes]) -> bytes:
    """Returns the number of input bytes of a task, and a checksum of the task and all before it, in their order."""
    mark = number
    for one in parents:
        mark = crc32(one[:_HEAD_SIZE], mark)
    return given.to_bytes(8, "little") + mark.to_bytes(8, "little")


class Synthetic(App):
    """Tasks without a purpose: the run measures the cost of the executor."""

    structure: Literal["bag", "diamond", "reduce", "sequence"] = "bag"
    tasks: Annotated[int, Field(ge=3)] = 1000
    #: Bytes that each task returns, besides the sixteen of the head.
    size: Annotated[int, Field(ge=0)] = 0
    #: Bytes that the program gives each task; they differ between tasks, so that an engine cannot send them once for
    #: all.
    given: Annotated[int, Field(ge=0)] = 0
    #: Seconds that each task sleeps, and their standard deviation.
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
        """Returns the results of the last tasks; for a bag, of all tasks."""
        submit = _Submitter(engine, self)
        if self.structure == "bag":
            return [task.result() for task in self._bag(engine, submit)]
        last: TaskFuture[bytes] = self._last(submit)
        return [last.result()]

    def _last(self, submit: Callable[..., Any]) -> Any:
        """Submits the tasks of a graph and returns the last one."""
        match self.structure:
            case "diamond":
                first = submit()
                return submit(*[submit(first) for _ in range(self.tasks - 2)])
            case "reduce":
                return submit(*[submit() for _ in range(self.tasks - 1)])
        task = submit()
        for _ in range(self.tasks - 1):
            task = submit(task)
        return task

    def _bag(self, engine: Engine, submit: _Submitter) -> Iterator[TaskFuture[bytes]]:
        first = min(self.in_flight or self.tasks, self.tasks)
        ended = engine.stream(submit() for _ in range(first))
        for task in ended:
            if submit.count < self.tasks:
                ended.add(submit())
            yield task

    def check(self, result: list[bytes]) -> str:
        """Checks that all tasks ran once, after the right ones, and received their arguments."""
        size = _HEAD_SIZE + self.size
        short = sum(len(one) != size for one in result)
        found = sorted(one[:_HEAD_SIZE] for one in result)
        expected = sorted(self._heads())
        if found != expected or short:
            wrong = len(Counter(expected) - Counter(found))
            raise WrongResult(
                f"the {self.structure} of {self.tasks} tasks ended with {len(result)} results instead of "
                f"{len(expected)}: {wrong} are missing or ran behind others, {short} have lost bytes"
            )
        return f"{self.structure} of {self.tasks} tasks"

    def _heads(self) -> list[bytes]:
        """Returns the expected heads of the results, by the same graph without tasks."""
        numbers = count()

        def submit(*parents: bytes) -> bytes:
            number = next(numbers)
            own = self.own(number)
            given = sum(map(len, own)) + len(parents) * (_HEAD_SIZE + self.size)
            return head(number, given, (*own, *parents))

        if self.structure == "bag":
            return [submit() for _ in range(self.tasks)]
        return [self._last(submit)]

    def own(self, number: int) -> tuple[bytes, ...]:
        """Returns the bytes that the program itself gives a task."""
        if not self.given:
            return ()
        return (number.to_bytes(8, "little").ljust(self.given, b"x")[: self.given],)


class _Submitter:
    """Callable that submits the next task."""

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
        return self._engine.submit(work, number, app.size, seconds, *app.own(number), *parents)
