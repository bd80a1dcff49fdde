"""Graphs of Task Bench: steps of many tasks, each of which needs some of the step before (Slaughter et al., SC 2020).

A task of a *stencil* needs its neighbours, of an *fft* the partners of a butterfly, of a *tree* the one above it, of
*all* all tasks, of a *chain* only the one with its own index, and of *none* no task.
"""

from __future__ import annotations

import time
from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field, model_validator

from gristmill_bench.apps.base import App
from gristmill_bench.engine import Engine, TaskFuture
from gristmill_bench.errors import WrongResult

#: Dependencies of the tasks of a step on the step before.
Pattern = Literal["none", "chain", "stencil", "fft", "tree", "all"]
#: Modulus that bounds the sums, so that a task costs the same at every step.
_MODULUS = (1 << 61) - 1


def point(place: int, busy_us: float, *before: int) -> int:
    """Runs a task: computes for ``busy_us`` microseconds, and mixes its arguments with its index."""
    if busy_us:
        end = time.perf_counter() + busy_us * 1e-6
        while time.perf_counter() < end:
            pass
    return mixed(place, *before)


def mixed(place: int, *before: int) -> int:
    """Returns the result of the task with an index and these arguments."""
    total = place + 1
    for one in before:
        total = (31 * total + one) % _MODULUS
    return total


class Stencil(App):
    """Steps of tasks with a pattern of dependencies between them."""

    pattern: Pattern = "stencil"
    width: Annotated[int, Field(ge=1)] = 8
    steps: Annotated[int, Field(ge=1)] = 100
    #: Microseconds that each task computes: its granularity.
    busy_us: Annotated[float, Field(ge=0)] = 0.0

    @model_validator(mode="after")
    def _butterflies_have_partners(self) -> Stencil:
        if self.pattern == "fft" and self.width & (self.width - 1):
            raise ValueError(f"the width of a fft is a power of two, and {self.width} is none")
        return self

    def parents(self, step: int, place: int) -> list[int]:
        """Returns the indices of the tasks of the step before that a task needs."""
        if step == 0:
            return []
        match self.pattern:
            case "none":
                return []
            case "chain":
                return [place]
            case "stencil":
                return list(range(max(0, place - 1), min(self.width, place + 2)))
            case "fft":
                bits = self.width.bit_length() - 1
                return sorted({place, place ^ (1 << (step - 1) % bits) if bits else place})
            case "tree":
                return [place // 2]
            case "all":
                return list(range(self.width))

    def run(self, engine: Engine, folder: Path) -> list[int]:
        """Returns the results of the last step's tasks."""
        before: list[TaskFuture[int]] = []
        for step in range(self.steps):
            before = [
                engine.submit(
                    point, place, self.busy_us, *(before[one] for one in self.parents(step, place))
                )
                for place in range(self.width)
            ]
        return [task.result() for task in before]

    def check(self, result: list[int]) -> str:
        """Checks the last step against the same graph without tasks."""
        before: list[int] = []
        for step in range(self.steps):
            before = [
                mixed(place, *(before[one] for one in self.parents(step, place)))
                for place in range(self.width)
            ]
        if result != before:
            raise WrongResult(f"the last step is {result[:3]}..., not {before[:3]}...")
        return f"{self.pattern} of {self.steps} steps of {self.width} tasks"
