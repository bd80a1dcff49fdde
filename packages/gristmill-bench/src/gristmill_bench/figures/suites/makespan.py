"""The makespan of applications on each engine, including the start and the shutdown of the engine."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from gristmill_bench.figures.data import Data
from gristmill_bench.figures.figure import Relation, Sweep
from gristmill_bench.figures.rates import OTHERS, bare
from gristmill_bench.figures.session import Point, Sample, Summary
from gristmill_bench.figures.suites.sizes import PAPERS

#: Parts of a makespan, each the sum of some phases of a run.
_PARTS = {"start": ("open", "warm-up"), "run": ("run",), "shutdown": ("close",)}
_OURS = "gristmill"
_ENGINES = (_OURS, "processes", *OTHERS)
#: The engines of the paper that are compared.
_THEIRS = _ENGINES[1:]
#: Engines that the paper found two to three times as fast as the others, by application.
_STANDING_OUT = {"cholesky": ("ray",), "moldesign": ("dask", "parsl"), "montage": ("dask",)}


def place(app: str, engine: str) -> str:
    """Returns the place of a bar on the axis."""
    return f"{app}, {engine}"


def makespan(data: Data, app: str, engine: str) -> float:
    """Returns the seconds of all parts together."""
    return sum(data.at(part, place(app, engine)) for part in _PARTS)


def _fastest(data: Data, app: str, engines: Iterable[str] = _THEIRS) -> str:
    measured = [one for one in engines if place(app, one) in data.places()]
    if len(measured) < 2:
        raise LookupError(f"{app} was measured on fewer than two of them")
    return min(measured, key=lambda one: makespan(data, app, one))


def no_engine_is_best(data: Data) -> tuple[bool, str]:
    """Returns whether the fastest engine differs between applications."""
    best = {app: _fastest(data, app) for app in PAPERS if _is_measured(data, app)}
    if len(best) < 2:
        raise LookupError("fewer than two applications were measured")
    return len(set(best.values())) > 1, ", ".join(f"{app}: {who}" for app, who in best.items())


def is_best(engine: str, *apps: str) -> Callable[[Data], tuple[bool, str]]:
    """Returns a check that an engine is the fastest of the paper's engines for some applications."""

    def check(data: Data) -> tuple[bool, str]:
        ratios = {}
        for app in apps:
            others = [one for one in _THEIRS if one != engine]
            fastest = _fastest(data, app, others)
            ratios[app] = makespan(data, app, fastest) / makespan(data, app, engine)
        said = ", ".join(f"{app}: {ratio:.3g}x the next" for app, ratio in ratios.items())
        return min(ratios.values()) >= 1, said

    return check


def ours_is_best(data: Data) -> tuple[bool, str]:
    """Returns whether Gristmill is the fastest for each application."""
    ratios = {}
    for app in PAPERS:
        if _is_measured(data, app):
            next_one = makespan(data, app, _fastest(data, app))
            ratios[app] = next_one / makespan(data, app, _OURS)
    if not ratios:
        raise LookupError("no application was measured")
    said = ", ".join(f"{app}: {ratio:.3g}x the next" for app, ratio in ratios.items())
    return min(ratios.values()) >= 1, said


def stand_out(data: Data) -> tuple[bool, str]:
    """Returns whether the engines that stand out in the paper take at most half of the time of the paper's others."""
    ratios = {}
    for app, engines in _STANDING_OUT.items():
        others = min(makespan(data, app, one) for one in _THEIRS if one not in engines)
        ratios[app] = others / max(makespan(data, app, one) for one in engines)
    said = ", ".join(f"{app}: {ratio:.3g}x the next" for app, ratio in ratios.items())
    return min(ratios.values()) >= 2, said


def _is_measured(data: Data, app: str) -> bool:
    return place(app, _OURS) in data.places()


class Makespans(Sweep):
    """Six applications with two workers, from before the engine is opened until its last process has ended.

    The start lasts until fifty tasks that do nothing have been run, because most engines start workers with their first
    tasks. Inputs that an application makes or reads before its first task, such as the matrix that is factorized, do
    not count.

    The paper has 32 or 64 workers on 128 cores, and so many and such short tasks that the costs of engines show. Here
    an engine with other processes besides its workers shares two cores with them, and its start counts for more because
    runs last a few seconds: the start decides here, where in the paper the engines differed by how they run tasks.

    For moldesign, Gristmill does the setup of all tasks once, as a context, in its own interpreter, which starts within
    the run and imports the suite anew: a quarter of a second in a run of one second. Workers of a pool already have the
    suite; they import the rest at the same time, on two cores.

    Tasks of fedlearn, mapreduce and montage share nothing, and most of their time is that of images, texts and
    programs, which no engine shortens: there Gristmill and a pool differ by less than repeated runs of one of them do,
    and either may be the first.
    """

    key = "taps-3"
    source = "TaPS, figure 3"
    title = "Makespan of applications"
    across = "application, engine"
    upward = "seconds"
    form = "shares"
    #: As many as in the paper. More would mostly repeat the starts of engines.
    repeats_max = 3
    relations = (
        Relation("no engine of the paper is the fastest everywhere", no_engine_is_best),
        Relation("Ray is the fastest of them for the factorization", is_best("ray", "cholesky")),
        Relation(
            "Dask is the fastest of them where objects are small",
            is_best("dask", "docking", "moldesign", "montage"),
        ),
        Relation(
            "Ray for the factorization, Dask and Parsl for moldesign, Dask for montage are twice as fast as others",
            stand_out,
        ),
        Relation("Gristmill is the fastest of all for each application", ours_is_best),
    )

    def points(self) -> Iterator[Point]:
        """Yields each application on each engine."""
        for app, fields in PAPERS.items():
            for name in _ENGINES:
                yield Point(
                    place(app, name), place(app, name), bare({"name": app, **fields}, name, 2)
                )

    def samples(self, summary: Summary, point: Point) -> Iterator[Sample]:
        """Yields the parts of the makespan."""
        for part, phases in _PARTS.items():
            yield Sample(part, point.at, sum(summary["seconds"][phase] for phase in phases))
