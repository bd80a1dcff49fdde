"""Tasks that do nothing, whose futures are kept: the number of objects that Python's garbage collector has to visit.

Source of the idea: "Towards Fine-grained Parallelism in Parallel and Distributed Python Libraries", thesis, section
2.4.3.2, which counts the objects of Parsl's kernel.
"""

from __future__ import annotations

import gc
from pathlib import Path
from typing import Annotated, NamedTuple

from pydantic import Field

from gristmill_bench.apps.base import App
from gristmill_bench.engine import Engine, TaskFuture
from gristmill_bench.errors import WrongResult


def same(number: int) -> int:
    """Returns its argument, as the task of this application."""
    return number


class _Result(NamedTuple):
    numbers: list[int]
    objects: int
    before: int


class Held(App):
    """Tasks that do nothing, and the objects that they leave while their futures are kept."""

    tasks: Annotated[int, Field(ge=1)] = 1000

    def run(self, engine: Engine, folder: Path) -> _Result:
        """Returns the results of all tasks, and the number of objects at the end and at the beginning."""
        before = _objects()
        tasks: list[TaskFuture[int]] = [engine.submit(same, one) for one in range(self.tasks)]
        numbers = [task.result() for task in tasks]
        # Some executors clean up a task after they have given its result.
        engine.finish()
        return _Result(numbers, _objects(), before)

    def check(self, result: _Result) -> str:
        """Checks that each task returned its number."""
        if result.numbers != list(range(self.tasks)):
            raise WrongResult(f"{self.tasks} tasks have returned other numbers than theirs")
        return f"{result.objects - result.before:,} objects for {self.tasks:,} tasks"

    def figures(self, result: _Result) -> dict[str, float]:
        """Returns the number of objects that the collector tracks at the end, and the number of new ones per task."""
        more = result.objects - result.before
        return {"objects": result.objects, "objects_per_task": more / self.tasks}


def _objects() -> int:
    """Collects garbage and returns the number of objects that the collector tracks."""
    gc.collect()
    return len(gc.get_objects())
