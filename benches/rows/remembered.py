"""Remembered calls: the cost of a hit, and the cost of writing each result to disk."""

from collections.abc import Callable
from itertools import count as numbers
from typing import Any, Literal

from benches.engines.kernels import OursEngine
from benches.harness import Measure, alternate, cost, opened, rate, sized
from benches.model import Block, Goal, Line, Recording, Row, Settings
from benches.work import noop
from gristmill.parsl import python_app
from gristmill.parsl.dataflow.memoization import BasicMemoizer
from gristmill_bench.executors.bare import Bare
from gristmill_bench.executors.parsl_kernels import BareKernel, Kernel, ours


class RememberingEngine(OursEngine):
    """Our kernel with `cache=True` on every app."""

    mode: Literal["task_exit"] | None = None

    def open(self) -> Bare:
        memoizer = BasicMemoizer(checkpoint_mode=self.mode)
        self._kernel = Kernel(
            "gristmill", lambda _: ours(self.workers), logs=True, memoizer=memoizer
        )
        return BareKernel(self._kernel)

    def start(self) -> None:
        super().start()
        app: Any = python_app(noop, data_flow_kernel=self._kernel.kernel, cache=True)
        self.submit = lambda function, *arguments: app(*arguments)


class CheckpointingEngine(RememberingEngine):
    """The same kernel, which writes each result to disk before the program can read it."""

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
