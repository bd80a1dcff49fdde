"""Round trips of arrays: copied, and as views."""

import importlib
from collections.abc import Callable
from typing import Any

import gristmill
from benches import engines
from benches.engines import PEERS
from benches.engines.base import Engine
from benches.engines.ours import GristmillEngine
from benches.harness import Measure, alternate, contest, cost, opened, sized
from benches.model import ALONE, Block, Goal, Line, Recording, Row, Settings, Unavailable
from benches.work import echo

MEGABYTE = 1_000_000
SIZES = (1, 10, 100)
#: The round trips before the clock starts: they touch pages and recycle segments.
WARM_TRIPS = 4


def numpy() -> Any:
    """Imports numpy, which only these rows need."""
    try:
        return importlib.import_module("numpy")
    except ImportError as error:
        raise Unavailable("numpy is not installed") from error


def repeated(trip: Callable[[], object]) -> Callable[[int], object]:
    """Returns a run of `count` round trips, each result dropped before the next."""

    def run(count: int) -> object:
        for _ in range(count):
            trip()
        return None

    return run


def side(settings: Settings, key: str, trip: Callable[[], object], note: Recording) -> Measure:
    """Makes one side, warmed and sized; its samples are seconds a round trip."""
    run = repeated(trip)
    run(WARM_TRIPS)
    count = sized(settings, run, low=1)
    note.parameters[f"{key} trips"] = count
    return cost(key, run, count)


class EchoRow(Row):
    """The round trip of a float64 array, against two copies of it on warm pages."""

    key = "echo"
    title = "echo of an array"
    unit = "s"
    peers = ("ppe", "ray")

    def blocks(self, settings: Settings) -> list[Block]:
        return [Block(ALONE), *(Block(peer) for peer in self.peers)]

    def lines(self) -> list[Line]:
        lines = []
        for size in SIZES:
            label, ours = f"{self.title}, {size} MB", f"ours {size}"
            must, moonshot = Goal(3, "ratio"), Goal(2, "ratio")
            copies = Line(label, ALONE, "lower", ours, f"copies {size}", "two copies")
            lines.append(_promised(copies, must, moonshot))
            lines += [
                Line(label, peer, "lower", ours, f"peer {size}", PEERS[peer].name)
                for peer in self.peers
            ]
        return lines

    def measure(self, block: str, settings: Settings) -> Recording:
        np = numpy()
        note = Recording(parameters={"workers": 1})
        with contest(settings, None if block == ALONE else block, 1) as engines:
            for size in SIZES:
                array = np.ones(size * MEGABYTE // 8)
                sides = [
                    side(settings, f"{key} {size}", _trip(engine, array), note)
                    for key, engine in engines
                ]
                if block == ALONE:
                    sides.append(side(settings, f"copies {size}", _copies(np, array), note))
                note.add("s", alternate(settings, *sides))
        return note


class ViewsRow(Row):
    """The same with views both ways. There is no copy, so no reference to compare with."""

    key = "views"
    title = "echo of an array, views both ways"
    unit = "s"

    def blocks(self, settings: Settings) -> list[Block]:
        return [Block(ALONE)]

    def lines(self) -> list[Line]:
        return [
            _promised(
                Line(f"{self.title}, {size} MB", ALONE, "lower", f"ours {size}"),
                Goal(100e-6),
                Goal(30e-6),
            )
            for size in SIZES
        ]

    def measure(self, block: str, settings: Settings) -> Recording:
        numpy()
        engine = engines.ours(settings.ours, 1)
        if not isinstance(engine, GristmillEngine):
            raise Unavailable(f"{engine.name} has no views")
        note = Recording(parameters={"workers": 1})
        with opened(engine):
            for size in SIZES:
                trip = _view_trip(engine.executor, size * MEGABYTE // 8)
                note.add("s", alternate(settings, side(settings, f"ours {size}", trip, note)))
        return note


def _trip(engine: Engine, array: Any) -> Callable[[], object]:
    submit, result = engine.submit, engine.result
    if result(submit(echo, array)).nbytes != array.nbytes:
        raise RuntimeError(f"{engine.name} returned another array")
    return lambda: result(submit(echo, array))


def _view_trip(executor: Any, count: int) -> Callable[[], object]:
    """Returns a round trip of an array of `count` float64 that is a view in both directions."""
    array: Any = gristmill.array((count,), dtype="float64")
    array[:] = 1.0
    submit = executor.options(views=True).submit
    return lambda: submit(echo, array).result()


def _copies(np: Any, array: Any) -> Callable[[], object]:
    there, back = np.ones_like(array), np.ones_like(array)

    def trip() -> object:
        np.copyto(there, array)
        np.copyto(back, there)
        return None

    return trip


def _promised(line: Line, must: Goal, moonshot: Goal) -> Line:
    return Line(
        line.label,
        line.block,
        line.better,
        line.ours,
        line.reference,
        line.reference_name,
        must=must,
        moonshot=moonshot,
    )
