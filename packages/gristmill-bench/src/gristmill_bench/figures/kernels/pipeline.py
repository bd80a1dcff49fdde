"""The way of a task to a worker and back, and its time at each place."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import ClassVar

from gristmill_bench.borders.hops import LAUNCHING, OF_HTEX
from gristmill_bench.figures.data import Data
from gristmill_bench.figures.figure import Relation, Sweep
from gristmill_bench.figures.rates import bare
from gristmill_bench.figures.session import Point, Sample, Summary

_PARSL, _LOKY, _OURS = "Parsl", "loky", "Gristmill"
_EXECUTORS = {_PARSL: "parsl", _LOKY: "loky", _OURS: "gristmill"}
_QUEUE = "interchange: queue"
_TO_WORKER = "queue to a worker"
_WORKER = (_TO_WORKER, "worker: function")
#: Channels of Parsl between processes or threads, on the way to a worker.
_CHANNELS = ("socket to the interchange", _QUEUE, "socket to the manager", _TO_WORKER)


class _Timed(Sweep):
    """Hops of tasks that do nothing, on two workers; for other engines, from notes in all of their processes."""

    tasks: ClassVar[dict[str, int]]
    in_flight: ClassVar[int | None] = None
    upward = "microseconds"
    across = "where a task is"

    def points(self) -> Iterator[Point]:
        """Yields each engine, with its hops as the places."""
        for series, tasks in self.tasks.items():
            app: dict[str, object] = {"name": "synthetic", "tasks": tasks}
            if self.in_flight is not None:
                app["in_flight"] = self.in_flight
            tables = bare(app, _EXECUTORS[series], 2)
            yield Point(series, "hops", tables | {"run": {"timings": True}})


class Pipeline(_Timed):
    """The way of a task that is alone, with the median of its time at each place. It is made of the borders that tasks
    really cross, which are timings with Gristmill. With Parsl, its kernel, executor, interchange, manager and worker
    note the time of each task; in the thesis' figure, too, they follow each other. The times of the way back are below
    the worker. A time between two processes begins before the first one sends, and includes the wake-up of the second.
    """

    key = "thesis-2.1"
    source = "Thesis, figure 2.1"
    title = "What a task passes, and for how long"
    form = "diagram"
    tasks: ClassVar[dict[str, int]] = {_PARSL: 300, _OURS: 5_000}
    in_flight = 1
    relations = (
        Relation(
            "a task passes kernel, executor, interchange, manager and worker",
            lambda data: _passes(data, ("kernel", "executor", "interchange", "manager", "worker")),
        ),
        Relation(
            "a task of Gristmill, alone, is done in a fifth of the time",
            lambda data: _whole(data, 5),
        ),
    )

    def samples(self, summary: Summary, point: Point) -> Iterable[Sample]:
        """Returns the median of each hop."""
        return [Sample(point.series, hop["name"], hop["median_us"]) for hop in summary["hops"]]


class Times(_Timed):
    """The average time of tasks in each component and on the way between two, when all are submitted at once. The
    thesis has 10,000 tasks and 192 workers; here there are as many tasks of each engine, and two workers. The thesis'
    interchange had one thread that received tasks and one that sent them on; by now they are one thread, and the queue
    is a list in it. Parsl's kernel now launches tasks in its own thread, for which they wait. That wait is a place of
    its own here. Relations that compare places leave it out, because the thesis' Parsl did not have it. A task counts
    as in the worker from the call of its function. The wait at the worker's end of the queue, above all for the
    semaphore, is the queue's time here. In the thesis, where 192 workers wait for each other, it is the worker's time,
    so that the worker itself comes later here. A note costs 0.3 microseconds, and a task of Parsl has sixteen. Tasks of
    Gristmill wait in the client, because a ring holds only as many as a worker runs in a moment; so do those of loky,
    whose queue has one more task than there are workers.
    """

    key = "thesis-2.3"
    source = "Thesis, figure 2.3"
    title = "Average time of tasks, by where they are"
    form = "bars"
    tasks: ClassVar[dict[str, int]] = dict.fromkeys(_EXECUTORS, 10_000)
    relations = (
        Relation(
            "tasks are ten times as long in the interchange as in any other component",
            lambda data: _interchange(data),
        ),
        Relation(
            "the queue in the interchange holds them longer than all that the thesis' Parsl had besides",
            lambda data: _more_than_rest(data),
        ),
        Relation(
            "the socket to the interchange is the second",
            lambda data: _is_second(data),
        ),
        Relation(
            "worker and queue to a worker come next, of what is on the way there",
            lambda data: _come_next(data),
        ),
        Relation(
            "tasks are little time in kernel, executor and manager: a twentieth of that in the interchange",
            lambda data: _is_little(data),
        ),
        Relation(
            "the socket to the manager is the cheapest channel",
            lambda data: _is_cheapest(data),
        ),
        Relation(
            "a task of Gristmill is under way for a tenth of the time, or less",
            lambda data: _whole(data, 10),
        ),
        Relation(
            "a task of loky is ten times as long under way, or more",
            lambda data: _whole(data, 10, _LOKY),
        ),
    )

    def samples(self, summary: Summary, point: Point) -> Iterable[Sample]:
        """Returns the average of each hop."""
        return [Sample(point.series, hop["name"], hop["mean_us"]) for hop in summary["hops"]]


def _passes(data: Data, components: tuple[str, ...]) -> tuple[bool, str]:
    """Returns whether the steps pass all components, in that order."""
    found = [str(place).partition(":")[0] for place in data.of(_PARSL) if ":" in str(place)]
    seen = tuple(dict.fromkeys(found))
    return seen == components, ", ".join(seen)


def _whole(data: Data, times: float, name: str = _PARSL) -> tuple[bool, str]:
    """Returns whether all hops of another engine together take at least ``times`` as long as Gristmill's."""
    other, ours = (sum(one.value for one in data.of(one_of).values()) for one_of in (name, _OURS))
    return other >= times * ours, f"{other:,.0f} us and {ours:,.0f} us"


def _components(data: Data) -> dict[str, float]:
    """Returns the time in each component of Parsl."""
    found: dict[str, float] = {}
    for place, one in data.of(_PARSL).items():
        component, colon, _ = str(place).partition(":")
        if colon:
            found[component] = found.get(component, 0.0) + one.value
    return found


def _interchange(data: Data) -> tuple[bool, str]:
    components = _components(data)
    inside = components.pop("interchange", 0.0)
    name, other = max(components.items(), key=lambda one: one[1])
    return inside >= 10 * other, f"{inside:,.0f} us; {name} {other:,.0f} us"


def _more_than_rest(data: Data) -> tuple[bool, str]:
    queue = data.at(_PARSL, _QUEUE)
    rest = {place: one.value for place, one in data.of(_PARSL).items() if place != _QUEUE}
    launching = rest.pop(LAUNCHING, 0.0)
    total = sum(rest.values())
    return queue > total, f"{queue:,.0f} us and {total:,.0f} us; {LAUNCHING} {launching:,.0f} us"


def _longest(data: Data) -> list[tuple[str, float]]:
    """Returns the places up to the function's end, longest first, without the launching, which is new in Parsl."""
    places = data.of(_PARSL)
    way = list(OF_HTEX[: OF_HTEX.index(_WORKER[-1]) + 1])
    found = [(name, places[name].value) for name in way if name in places and name != LAUNCHING]
    return sorted(found, key=lambda one: -one[1])


def _is_second(data: Data) -> tuple[bool, str]:
    ordered = _longest(data)
    return ordered[1][0] == _CHANNELS[0], _named(ordered[:3])


def _come_next(data: Data) -> tuple[bool, str]:
    rest = [one for one in _longest(data) if one[0] not in (_QUEUE, _CHANNELS[0])]
    return {name for name, _ in rest[:2]} == set(_WORKER), _named(rest[:3])


def _is_little(data: Data) -> tuple[bool, str]:
    components = _components(data)
    spent = {name: components.get(name, 0.0) for name in ("kernel", "executor", "manager")}
    inside = components["interchange"]
    return sum(spent.values()) <= inside / 20, _named([*spent.items(), ("interchange", inside)])


def _named(times: list[tuple[str, float]]) -> str:
    return ", ".join(f"{name} {time:,.0f} us" for name, time in times)


def _is_cheapest(data: Data) -> tuple[bool, str]:
    times = {name: data.at(_PARSL, name) for name in _CHANNELS}
    return min(times, key=lambda name: times[name]) == "socket to the manager", _named(
        [*times.items()]
    )
