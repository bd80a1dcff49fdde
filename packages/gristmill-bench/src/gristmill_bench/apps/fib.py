"""Fibonacci numbers by their definition: a tree of tasks that do next to nothing, each of which needs two others."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from pydantic import Field

from gristmill_bench.apps.base import App
from gristmill_bench.engine import Engine, TaskFuture
from gristmill_bench.errors import WrongResult


def leaf(number: int) -> int:
    """Returns one of the first two numbers."""
    return number


def add(left: int, right: int) -> int:
    """Returns the sum of the two numbers before."""
    return left + right


class Fib(App):
    """The ``n``-th Fibonacci number, by as many additions as its definition has."""

    n: Annotated[int, Field(ge=0, le=30)] = 15

    def run(self, engine: Engine, folder: Path) -> int:
        """Returns the number."""
        return self._task(engine, self.n).result()

    def _task(self, engine: Engine, number: int) -> TaskFuture[int]:
        if number < 2:
            return engine.submit(leaf, number)
        left, right = self._task(engine, number - 1), self._task(engine, number - 2)
        return engine.submit(add, left, right)

    def check(self, result: int) -> str:
        """Checks the number against the result of a loop."""
        before, number = 0, 1
        for _ in range(self.n):
            before, number = number, before + number
        if result != before:
            raise WrongResult(f"fib({self.n}) is {before}, not {result}")
        return f"fib({self.n}) = {result}"
