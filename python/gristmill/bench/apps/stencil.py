"""Graphs of Task Bench: steps of many tasks, each of which needs some of the step before (Slaughter et al., SC 2020).

A task of a *stencil* needs its neighbours, of a *fft* the partners of a butterfly, of a *tree* the one above it, of
*all* all of them, of a *chain* only the one in its own place, and one of *none* nothing.
"""

from __future__ import annotations

import time
from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field, model_validator

from gristmill.bench.apps.base import App
from gristmill.bench.engine import Engine, TaskFuture
from gristmill.bench.errors import WrongResult

#: What the tasks of a step need of the step before.
Pattern = Literal["none", "chain", "stencil", "fft", "tree", "all"]
#: Sums are kept below this, so that a task costs the same at every step.
_MODULUS = (1 << 61) - 1


def point(place: int, busy_us: float, *before: int) -> int:
    """A task: computes for so long, and mixes what it was given with where it is."""
    if busy_us:
        end = time.perf_counter() + busy_us * 1e-6
        while time.perf_counter() < end:
            pass
    return mixed(place, *before)


def mixed(place: int, *before: int) -> int:
    """What a task in a place returns that was given these."""
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
        """The places of the step before that a task needs."""
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
        """Gives what the tasks of the last step have returned."""
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
        """The same without tasks."""
        before: list[int] = []
        for step in range(self.steps):
            before = [
                mixed(place, *(before[one] for one in self.parents(step, place)))
                for place in range(self.width)
            ]
        if result != before:
            raise WrongResult(f"the last step is {result[:3]}..., not {before[:3]}...")
        return f"{self.pattern} of {self.steps} steps of {self.width} tasks"
