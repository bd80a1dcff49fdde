"""Remembered calls: what a hit costs, and what writing each result to disk costs."""

import importlib
from collections.abc import Callable
from itertools import count as numbers
from typing import Any

from benches.adapters.kernels import OursEngine
from benches.harness import Measure, alternate, cost, opened, rate, sized
from benches.model import Block, Goal, Line, Recording, Row, Settings
from benches.work import noop


class RememberingEngine(OursEngine):
    """Our kernel with `cache=True` on every app."""

    mode: str | None = None

    def options(self) -> dict[str, Any]:
        memoization = importlib.import_module("gristmill.parsl.memoization")
        return {"memoizer": memoization.BasicMemoizer(checkpoint_mode=self.mode)}

    def start(self) -> None:
        super().start()
        app = importlib.import_module("gristmill").python_app(
            noop, data_flow_kernel=self.backend.kernel, cache=True
        )
        self.submit = lambda function, *arguments: app(*arguments)


class CheckpointingEngine(RememberingEngine):
    """The same, each result written before anybody sees it."""

    mode = "task_exit"


class HitRow(Row):
    """A call whose result is in memory."""

    key = "hit"
    title = "memo hit, per call"
    unit = "s"

    def blocks(self, settings: Settings) -> list[Block]:
        return [Block("apps")]

    def lines(self) -> list[Line]:
        return [Line(self.title, "apps", "lower", must=Goal(10e-6), moonshot=Goal(3e-6))]

    def measure(self, block: str, settings: Settings) -> Recording:
        recording = Recording()
        engine = RememberingEngine(2)
        with opened(engine):
            submit = engine.submit

            def run(count: int) -> object:
                for _ in range(count):
                    submit(noop, 7)
                return None

            recording.add(self.unit, alternate(settings, cost("ours", run, sized(settings, run))))
        return recording


class CheckpointRow(Row):
    """New calls, each written to the checkpoint, against the same without one."""

    key = "checkpoint"
    title = "checkpoint at every task's exit"
    unit = "/s"

    def blocks(self, settings: Settings) -> list[Block]:
        return [Block("apps")]

    def lines(self) -> list[Line]:
        return [
            Line(
                self.title,
                "apps",
                "higher",
                reference="without",
                reference_name="cache=True without",
                must=Goal(0.5, "ratio"),
                moonshot=Goal(0.9, "ratio"),
            )
        ]

    def measure(self, block: str, settings: Settings) -> Recording:
        recording = Recording()
        written, without = CheckpointingEngine(2), RememberingEngine(2)
        with opened(without, written):
            sides = [_side("ours", written, settings), _side("without", without, settings)]
            recording.add(self.unit, alternate(settings, *sides))
        return recording


def _side(key: str, engine: RememberingEngine, settings: Settings) -> Measure:
    fresh = numbers(1000)
    submit = engine.submit

    def run(count: int) -> object:
        futures = [submit(noop, next(fresh)) for _ in range(count)]
        return [future.result() for future in futures]

    typed: Callable[[int], object] = run
    return rate(key, typed, sized(settings, typed, high=20_000))
