"""The application of the thesis: predictions for molecules, several in each task."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from gristmill_bench.figures.data import Data
from gristmill_bench.figures.figure import Relation, Sweep
from gristmill_bench.figures.kernels.granularity import on
from gristmill_bench.figures.rates import bare
from gristmill_bench.figures.relations import at_least, every
from gristmill_bench.figures.session import Point, Sample, Summary

_BATCHES = (1, 10, 100, 1_000)
_LARGEST = _BATCHES[-1]
#: Number of molecules: twenty tasks of the largest size, so that one more task on one worker is a tenth of its time.
_MOLECULES = 20_000
#: The factor by which repeated runs of an engine differ; smaller differences do not count.
_SAME = 1.05
_WORKERS = (1, 2)
_SERIAL, _PARSL, _NATIVE = "serial", "parsl", "gristmill-parsl"
_ALL_PARSL = tuple(on(_PARSL, count) for count in _WORKERS)
_ALL_NATIVE = tuple(on(_NATIVE, count) for count in _WORKERS)


class Inference(Sweep):
    """ParslDock's inference: each task takes some molecules, computes their fingerprints and predicts with them. It
    runs without parallel tasks (serial), as a Parsl program on Parsl, as the same program on a native kernel with
    direct dispatch (`gristmill-parsl`), and on Gristmill's executor. The paper has 100,000 molecules, and up to
    hundreds of workers. Here there are 20,000 molecules of a fraction of a millisecond each, and one worker or two,
    which have loaded the libraries and the model before. Two workers on two cores can be at most twice as fast as one
    program, whatever the engine: of the paper's factors of 10 and 30 that is the most that is possible here. With Parsl
    it is less, because its kernel and HTEX take their share of the cores. With 1,000 molecules a task there are twenty
    tasks: at the end one worker can be alone for the length of one task. A hundred molecules a task can therefore be
    faster, if they hide the cost of a task.
    """

    key = "thesis-2.12"
    source = "Thesis, figure 2.12; Fine-grained Parsl, figure 12"
    title = "Predictions for 20,000 molecules, by molecules a task"
    across = "molecules a task"
    upward = "seconds"
    relations = (
        Relation(
            "all are fastest with the most molecules a task, within a twentieth",
            lambda data: _fastest_at(data, _LARGEST),
        ),
        Relation(
            "at its fastest Parsl takes a third of the time of the serial program",
            lambda data: _shortened(data, _ALL_PARSL, 3, (_SERIAL,)),
        ),
        Relation(
            "at its fastest a native kernel takes a tenth of the time of Parsl at its fastest",
            lambda data: _shortened(data, _ALL_NATIVE, 10, _ALL_PARSL),
        ),
        Relation(
            "at its fastest a native kernel takes a thirtieth of the time of the serial program",
            lambda data: _shortened(data, _ALL_NATIVE, 30, (_SERIAL,)),
        ),
        Relation(
            "with a native kernel two workers take half of the time of one, within a quarter",
            lambda data: _shortened(data, _ALL_NATIVE[1:], 1.6, _ALL_NATIVE[:1]),
        ),
        Relation(
            "Parsl with one worker is slower than the serial program",
            at_least(on(_PARSL, 1), 1, _SERIAL, _BATCHES),
        ),
        Relation(
            "a molecule a task: a native kernel takes less than a half of the time of Parsl",
            every(*(at_least(on(_PARSL, one), 2, on(_NATIVE, one), (1,)) for one in _WORKERS)),
        ),
        Relation(
            "a molecule a task costs a native kernel less than a tenth more than a thousand",
            lambda data: _dearer(data, on(_NATIVE, 2), 1.1),
        ),
    )

    def points(self) -> Iterator[Point]:
        """Yields a run for each engine and number of workers: all sizes of tasks, after a round that is not shown."""
        app = {"name": "molscreen", "molecules": _MOLECULES, "further": _BATCHES}
        yield Point(_SERIAL, "all sizes", bare(app, "inline", 1))
        for workers in _WORKERS:
            for name in (_PARSL, _NATIVE, "gristmill"):
                yield Point(on(name, workers), "all sizes", bare(app, name, workers))

    def samples(self, summary: Summary, point: Point) -> Iterable[Sample]:
        """Yields the time for each size."""
        for batch in _BATCHES:
            yield Sample(point.series, batch, float(summary["figures"][f"screening_by_{batch}_s"]))


def _fastest_at(data: Data, batch: int) -> tuple[bool, str]:
    """Returns whether no series is faster at another place by more than repeated runs differ."""
    ratios = {name: data.at(name, batch) / _shortest(data, name) for name in data.series()}
    text = ", ".join(f"{name}: {ratio:.3g}x its shortest" for name, ratio in ratios.items())
    return max(ratios.values()) <= _SAME, text


def _shortened(
    data: Data, some: tuple[str, ...], times: float, others: tuple[str, ...]
) -> tuple[bool, str]:
    """Returns whether the shortest time of some series is at least ``times`` shorter than that of others."""
    ratio = min(_shortest(data, one) for one in others) / min(_shortest(data, one) for one in some)
    return ratio >= times, f"{ratio:.3g}x faster"


def _shortest(data: Data, series: str) -> float:
    return min(one.value for one in data.of(series).values())


def _dearer(data: Data, series: str, most: float) -> tuple[bool, str]:
    """Returns whether the smallest tasks take at most ``most`` times the time of the largest."""
    ratio = data.at(series, _BATCHES[0]) / data.at(series, _LARGEST)
    return ratio <= most, f"{ratio:.3g}x"
