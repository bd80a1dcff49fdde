"""Inferences of ResNet-50: the savings by a context that is kept, against the expected ones."""

import sys
from collections.abc import Callable, Mapping
from statistics import median
from time import perf_counter

from benches.contexts import environment, resnet
from benches.contexts.levels import Level, deviation, expected_saving, saving
from benches.engines.base import share_paths
from benches.harness import Measure, alternate, opened
from benches.model import Block, Goal, Line, Recording, Row, Settings
from benches.rows.start import interpreter

COUNTS = (1, 16, 160)
#: The number of samples of the longest calls: the saving there is a small difference of large times, each with an error
#: of a hundredth.
SAMPLES_OF_LONGEST = 13
#: The levels that set up anew for each call.
BESIDE = ("L1", "L2")
#: The limit of the deviation from the expected saving, in percent of it.
DEVIATION_MAX = 10.0
#: A set-up outside of any engine: a program for an interpreter that does nothing else.
_SETUP = "from benches.contexts import resnet\nresnet.program({path!r})"


class InferenceRow(Row):
    """The time that calls of N inferences save, against set-up / (set-up + compute) measured without an engine.

    Set-up is the whole run of a plain interpreter that imports a heavy stack and opens the network; compute is N
    inferences in a process that has opened it. There is one worker, and nothing runs beside it.
    """

    key = "context-infer"
    title = "ResNet-50"
    unit = "%"

    def blocks(self, settings: Settings) -> list[Block]:
        return [Block(str(count), timeout_s=1800) for count in COUNTS]

    def lines(self) -> list[Line]:
        return [line for count in COUNTS for beside in BESIDE for line in self._pair(count, beside)]

    def _pair(self, count: int, beside: str) -> list[Line]:
        block, noun = str(count), "inference" if count == 1 else "inferences"
        label = f"{self.title}, {count} {noun} a call: saved by L3 against {beside}"
        formula = "set-up / (set-up + compute)"
        must = Goal(DEVIATION_MAX)
        return [
            Line(label, block, "higher", f"{beside} saving", "expected", formula),
            Line(f"{label}, off by", block, "lower", f"{beside} off", must=must),
        ]

    def measure(self, block: str, settings: Settings) -> Recording:
        environment.needed("onnx", *environment.HEAVY)
        share_paths()
        count, path = int(block), str(resnet.file())
        levels = {name: Level(settings, name, resnet.program, path) for name in (*BESIDE, "L3")}
        recording = Recording(parameters={"workers": 1, "inferences": count, "python": sys.version})
        held = resnet.program(path)

        def compute() -> object:
            return resnet.infer(held["session"], held["image"], count)

        with opened(*(level.engine for level in levels.values())):
            sides = [timed("compute", compute), timed("setup", lambda: set_up(path))]
            sides += [timed(name, calling(level, count)) for name, level in levels.items()]
            for side in (sides[0], sides[-1]):
                side()
            needs_more = count == COUNTS[-1] and not settings.quick
            least = SAMPLES_OF_LONGEST if needs_more else 0
            seconds = alternate(settings, *sides, least=least)
        recording.add("s", seconds)
        recording.add(self.unit, savings(seconds))
        return recording


def set_up(path: str) -> object:
    """Opens the network in a new interpreter."""
    return interpreter(_SETUP.format(path=path), ".")


def calling(level: Level, count: int) -> Callable[[], object]:
    """Makes a call of `count` inferences at a level."""
    return lambda: level.call(resnet.inferred, level.context, count)


def timed(key: str, run: Callable[[], object]) -> Measure:
    """Makes a side that times one run."""

    def sample() -> dict[str, float]:
        start = perf_counter()
        run()
        return {key: perf_counter() - start}

    return sample


def savings(seconds: Mapping[str, list[float]]) -> dict[str, list[float]]:
    """Computes the savings sample by sample, and the deviation of the medians from the expected savings."""
    expected = [
        expected_saving(setup, compute)
        for setup, compute in zip(seconds["setup"], seconds["compute"], strict=True)
    ]
    series = {"expected": expected}
    middle = {key: median(samples) for key, samples in seconds.items()}
    for beside in BESIDE:
        pairs = zip(seconds["L3"], seconds[beside], strict=True)
        series[f"{beside} saving"] = [saving(kept, anew) for kept, anew in pairs]
        measured = saving(middle["L3"], middle[beside])
        from_it = deviation(measured, expected_saving(middle["setup"], middle["compute"]))
        series[f"{beside} off"] = [from_it]
    return series
