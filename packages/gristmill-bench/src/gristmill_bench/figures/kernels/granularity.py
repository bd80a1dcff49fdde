"""The rate of tasks of each engine, by the time that tasks compute."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from gristmill_bench.apps.granularity import rate_name
from gristmill_bench.figures.data import Data
from gristmill_bench.figures.figure import Relation, Sweep
from gristmill_bench.figures.rates import OTHERS, bare
from gristmill_bench.figures.relations import at_least, every
from gristmill_bench.figures.session import Point, Sample, Summary

_WORKERS = (1, 2)
#: Microseconds, with the names of their places: a logarithmic axis has no zero.
_LENGTHS_US = {"0": 0, "1": 1, "10": 10, "1,000": 1_000, "10,000": 10_000}
_SHORT = ("0", "1", "10")
#: Parsl's program on Gristmill's kernel, which sends tasks to Gristmill's workers directly.
_OURS = "gristmill-parsl"
#: The factor below which two rates count as the same.
_SAME = 4 / 3


def on(name: str, workers: int) -> str:
    """Returns the series of an engine with a number of workers."""
    return f"{name} on {workers}"


class Granularity(Sweep):
    """Tasks that do not depend on each other and compute for 0 to 10,000 microseconds, on one worker and on two. The
    papers have Parsl, Ray, Dask and a native kernel with direct dispatch (here: `gristmill-parsl`), on up to hundreds
    of workers. Here two cores also run the program and all that is between it and the workers; where that is much,
    tasks of a millisecond have less than a core each. Two workers run at most 200 tasks of 10 ms a second, and a native
    kernel comes close to that. The paper's kernel stops growing at eight workers, beyond which Ray overtakes it. Ray
    stays below it here, because Ray's own processes take a millisecond or so of these cores for each task.
    """

    key = "thesis-2.10"
    source = "Thesis, figures 2.10 and 2.11, right; Fine-grained Parsl, figures 10 and 11"
    title = "Rate of tasks, by how long they compute"
    across = "microseconds that a task computes"
    upward = "tasks/s"
    relations = (
        Relation(
            "Parsl runs tasks of 0, 1 and 10 us at one rate",
            lambda data: _steady(data, "parsl", _SHORT),
        ),
        Relation(
            "with Parsl tasks of a millisecond do not show yet, tasks of 10 ms do",
            lambda data: _shows_from(data, "parsl", "1,000", "10,000"),
        ),
        Relation(
            "Dask runs tasks of a microsecond and of a millisecond at one rate",
            lambda data: _steady(data, "dask", ("1", "1,000")),
        ),
        Relation(
            "with Ray the rate of tasks of a millisecond grows with the workers as that of 10 ms does",
            lambda data: _grow_alike(data, "ray", "1,000", "10,000"),
        ),
        Relation(
            "a native kernel with direct dispatch runs tasks of 0 to 10 us at a higher rate than Ray",
            every(*(at_least(on(_OURS, count), 1, on("ray", count), _SHORT) for count in _WORKERS)),
        ),
        Relation(
            "Ray runs tasks of 10 ms at a higher rate than a native kernel",
            at_least(on("ray", 2), 1, on(_OURS, 2), ("10,000",)),
        ),
        Relation(
            "a native kernel runs tasks of 0 to 10 us at more than ten times the rate of each of the others",
            every(*(at_least(on(_OURS, 2), 10, on(name, 2), _SHORT) for name in OTHERS)),
        ),
    )

    def points(self) -> Iterator[Point]:
        """Yields a run for each engine and number of workers, with all lengths one after the other."""
        app = {"name": "granularity", "busy_us": tuple(_LENGTHS_US.values())}
        for workers in _WORKERS:
            for name in (_OURS, *OTHERS):
                yield Point(on(name, workers), "all lengths", bare(app, name, workers))

    def samples(self, summary: Summary, point: Point) -> Iterable[Sample]:
        """Yields the rate for each length."""
        for place, busy_us in _LENGTHS_US.items():
            yield Sample(point.series, place, float(summary["figures"][rate_name(busy_us)]))


def _steady(data: Data, name: str, places: tuple[str, ...]) -> tuple[bool, str]:
    """Returns whether an engine has one rate at some places, with each number of workers."""
    spreads = []
    for workers in _WORKERS:
        rates = [data.at(on(name, workers), place) for place in places]
        spreads.append(max(rates) / min(rates))
    return max(spreads) <= _SAME, f"they differ by up to {max(spreads):.3g}x"


def _shows_from(data: Data, name: str, before: str, place: str) -> tuple[bool, str]:
    """Returns whether the rate is that of empty tasks at ``before``, and lower at ``place``."""
    shares = {
        each: [data.at(on(name, count), each) / data.at(on(name, count), "0") for count in _WORKERS]
        for each in (before, place)
    }
    holds = min(shares[before]) >= 1 / _SAME and max(shares[place]) < 1 / _SAME
    text = "; ".join(f"{each} us: {_each(found)}" for each, found in shares.items())
    return holds, f"of the rate of empty tasks at {text}"


def _grow_alike(data: Data, name: str, *places: str) -> tuple[bool, str]:
    """Returns whether the rate grows from one worker to two by the same factor at some places."""
    first, last = _WORKERS
    growths = [data.at(on(name, last), one) / data.at(on(name, first), one) for one in places]
    return max(growths) / min(growths) <= _SAME, _each(growths)


def _each(values: list[float]) -> str:
    return " and ".join(f"{one:.3g}x" for one in values)
