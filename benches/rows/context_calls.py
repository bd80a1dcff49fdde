"""The cost of a call in a context against a call without one, and the replacement of a context's killed worker."""

from collections.abc import Callable
from functools import partial
from statistics import fmean, median
from time import perf_counter
from typing import Any

from benches import engines
from benches.contexts import environment, resnet
from benches.contexts.levels import Level
from benches.harness import Measure, alternate, cost, opened, sized
from benches.model import Block, Goal, Line, Recording, Row, Settings
from benches.rows.latency import WARM_CALLS
from benches.rows.replace import replaced
from benches.work import add, nothing, pid

ADDITIONS, ANEW = "additions", "anew"
#: The calls of a sample of level 1, where each takes a hundred milliseconds.
ANEW_CALLS = 2
LIGHT, HEAVY = "light", "resnet"
#: The corresponding figure of the paper: table 2, an addition as an invocation.
PAPER = "(paper: 2,520 us)"


class ContextCallRow(Row):
    """Additions as local calls, as plain tasks, and as tasks in a context at levels 1 and 3."""

    key = "context-call"
    title = "addition as an invocation in a context"
    unit = "s"

    def blocks(self, settings: Settings) -> list[Block]:
        # Separate blocks: the interpreters of L1 would take the cores from workers that spin for their next call.
        return [Block(ADDITIONS), Block(ANEW)]

    def lines(self) -> list[Line]:
        hot = "hot call without a context"
        return [
            Line(
                self.title,
                ADDITIONS,
                "lower",
                "L3",
                "plain",
                hot,
                must=Goal(1.3, "ratio"),
                moonshot=Goal(1.05, "ratio"),
            ),
            Line(f"{self.title} {PAPER}", ADDITIONS, "lower", "L3", must=Goal(10e-6)),
            Line(f"{self.title}, mean", ADDITIONS, "lower", "L3 mean", "plain mean", hot),
            Line(
                "addition as a task that sets its context up anew (L1)",
                ANEW,
                "lower",
                "L1",
                "L3",
                "as an invocation",
                ADDITIONS,
            ),
            Line("addition as a local call", ANEW, "lower", "local"),
        ]

    def measure(self, block: str, settings: Settings) -> Recording:
        recording = Recording(parameters={"workers": 1})
        if block == ANEW:
            anew = Level(settings, "L1", nothing)
            with opened(anew.engine):
                anew.call(add, 1, 2)
                local = cost("local", locally, sized(settings, locally))
                again = cost("L1", partial(calls, anew.submit, anew.engine.result), ANEW_CALLS)
                recording.add(self.unit, alternate(settings, local, again))
            return recording
        kept = Level(settings, "L3", nothing)
        plain = engines.ours(settings.ours, 1)
        with opened(plain, kept.engine):
            runs = {
                "L3": partial(calls, kept.submit, kept.engine.result),
                "plain": partial(calls, plain.submit, plain.result),
            }
            counts = {key: sized(settings, run) for key, run in runs.items()}
            sides = [warmed(key, run, counts[key]) for key, run in runs.items()]
            recording.add(self.unit, alternate(settings, *sides))
        recording.parameters["calls"] = counts
        return recording


def calls(submit: Any, result: Any, count: int) -> list[float]:
    """Runs additions and waits for each. Returns the seconds of each, including one reading of the clock."""
    took = []
    before = perf_counter()
    for number in range(count):
        result(submit(add, number, number))
        after = perf_counter()
        took.append(after - before)
        before = after
    return took


def locally(count: int) -> None:
    """Runs additions in this process."""
    for number in range(count):
        add(number, number)


def warmed(key: str, run: Callable[[int], list[float]], count: int) -> Measure:
    """Makes a side of calls to a worker that is awake: their median, and their mean, which includes interruptions."""

    def sample() -> dict[str, float]:
        run(WARM_CALLS)
        took = run(count)
        return {key: median(took), f"{key} mean": fmean(took)}

    return sample


class ReforkRow(Row):
    """The time from the SIGKILL of a context's worker to the next result of a worker forked in its place.

    As in the row `replace`, the other worker is held, so that the result can only be the successor's.
    """

    key = "context-refork"
    title = "worker of a context replaced after SIGKILL"
    unit = "s"

    def blocks(self, settings: Settings) -> list[Block]:
        return [Block(LIGHT), Block(HEAVY)]

    def lines(self) -> list[Line]:
        contexts = {LIGHT: "an empty context", HEAVY: "ResNet-50"}
        return [
            Line(
                f"{self.title}, {contexts[block]}",
                block,
                "lower",
                reference="plain",
                reference_name="worker without a context",
                must=Goal(15e-3),
                moonshot=Goal(4e-3),
            )
            for block in (LIGHT, HEAVY)
        ]

    def measure(self, block: str, settings: Settings) -> Recording:
        setup: Any = (nothing,)
        if block == HEAVY:
            environment.needed("onnx", "onnxruntime")
            setup = (resnet.opened, str(resnet.file()))
        ours = Level(settings, "L3", *setup, workers=2)
        plain = engines.ours(settings.ours, 2)
        with opened(plain, ours.engine):
            ours.call(pid)
            measures = [replaced("ours", ours.inside), replaced("plain", plain)]
            series = alternate(settings, *measures)
            recording = Recording(parameters={"workers": 2, "memory": ours.report().memory})
        recording.add(self.unit, series)
        return recording
