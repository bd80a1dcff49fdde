"""Figures about kernels: the verdicts of their relations on data for which they hold, and on data for which they do
not.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from gristmill_bench import Engine, WrongResult
from gristmill_bench.apps.granularity import Granularity as App
from gristmill_bench.apps.granularity import rate_name
from gristmill_bench.executors.here import Inline
from gristmill_bench.figures.data import Data, Place
from gristmill_bench.figures.figure import Figure
from gristmill_bench.figures.kernels.dispatch import Dispatch, Kernels, Nodes
from gristmill_bench.figures.kernels.granularity import Granularity
from gristmill_bench.figures.kernels.inference import Inference
from gristmill_bench.figures.kernels.shortest import Shortest
from gristmill_bench.figures.session import Point

Values = Mapping[str, Mapping[Place, float]]

#: The values of the papers.
KERNELS: Values = {
    "Parsl's kernel over HTEX": {1: 1_000, 2: 1_900, 4: 3_800},
    "native kernel over HTEX": {1: 6_000, 2: 8_000, 4: 7_000},
}
NODES: Values = {
    "native kernel over HTEX, 1 node": {2: 900, 4: 980, 6: 1_000},
    "native kernel over HTEX, 2 nodes": {2: 600, 4: 800, 6: 990},
    "Parsl's kernel over HTEX, 1 node": {2: 500, 4: 800, 6: 900},
    "Parsl's kernel over HTEX, 2 nodes": {2: 400, 4: 700, 6: 910},
    "native kernel, direct dispatch, 1 node": {2: 10_000, 4: 10_000, 6: 10_000},
    "native kernel, direct dispatch, 2 nodes": {2: 9_200, 4: 9_500, 6: 9_600},
}
DISPATCH: Values = {
    "native kernel, direct dispatch": {1: 90_000, 2: 140_000, 4: 130_000},
    "Parsl's kernel, direct dispatch": {1: 4_000, 2: 4_400, 4: 4_300},
    "Parsl's kernel over HTEX": {1: 1_000, 2: 2_000, 4: 4_000},
    "native kernel over HTEX": {2: 100_000},
}
LENGTHS = ("0", "1", "10", "1,000", "10,000")
GRANULARITY: Values = {
    "parsl on 1": dict(zip(LENGTHS, (900, 910, 890, 800, 90), strict=True)),
    "parsl on 2": dict(zip(LENGTHS, (990, 980, 990, 900, 180), strict=True)),
    "ray on 1": dict(zip(LENGTHS, (5_000, 5_000, 4_900, 900, 98), strict=True)),
    "ray on 2": dict(zip(LENGTHS, (6_000, 6_000, 5_900, 1_700, 196), strict=True)),
    "dask on 1": dict(zip(LENGTHS, (700, 710, 690, 600, 95), strict=True)),
    "dask on 2": dict(zip(LENGTHS, (700, 710, 690, 650, 180), strict=True)),
    "gristmill-parsl on 1": dict(zip(LENGTHS, (90_000, 90_000, 60_000, 990, 99), strict=True)),
    "gristmill-parsl on 2": dict(zip(LENGTHS, (99_000, 99_000, 90_000, 1_900, 190), strict=True)),
}
SIZES = (1, 10, 100, 1_000)
INFERENCE: Values = {
    "serial": dict(zip(SIZES, (40, 38, 36, 35), strict=True)),
    "parsl on 1": dict(zip(SIZES, (100, 90, 60, 50), strict=True)),
    "parsl on 2": dict(zip(SIZES, (50, 40, 20, 11), strict=True)),
    "gristmill-parsl on 1": dict(zip(SIZES, (2.1, 2.05, 2.02, 2), strict=True)),
    "gristmill-parsl on 2": dict(zip(SIZES, (1.08, 1.07, 1.05, 1), strict=True)),
}
SHORTEST: Values = {
    name: {"METG(50 %)": time_us}
    for name, time_us in {
        "gristmill": 10.0,
        "gristmill-parsl": 20.0,
        "gristmill on 2 nodes": 90.0,
        **dict.fromkeys(("pool", "processes", "loky", "mpi"), 100.0),
        **dict.fromkeys(("parsl", "ray", "dask"), 1_000.0),
    }.items()
}


def data_of(figure: Figure, values: Values) -> Data:
    data = figure.empty()
    for series, places in values.items():
        for place, value in places.items():
            data.add(series, place, value)
    return data


@pytest.mark.parametrize(
    ("figure", "values"),
    [
        (Kernels(), KERNELS),
        (Nodes(), NODES),
        (Dispatch(), DISPATCH),
        (Granularity(), GRANULARITY),
        (Inference(), INFERENCE),
        (Shortest(), SHORTEST),
    ],
    ids=lambda one: one.key if isinstance(one, Figure) else "",
)
def test_all_relations_hold_in_data_like_the_papers(figure: Figure, values: Values) -> None:
    data = data_of(figure, values)
    found = {one.text: one.verdict(data) for one in figure.relations}
    assert {verdict for verdict, _ in found.values()} == {"holds"}, found


def changed(values: Values, series: str, places: Mapping[Place, float]) -> Values:
    return {**values, series: {**values[series], **places}}


@pytest.mark.parametrize(
    ("figure", "values", "broken"),
    [
        (
            Kernels(),
            changed(KERNELS, "native kernel over HTEX", {2: 7_500}),
            "at its best a native",
        ),
        (Kernels(), changed(KERNELS, "native kernel over HTEX", {1: 2_800}), "with one worker"),
        (
            Kernels(),
            changed(KERNELS, "Parsl's kernel over HTEX", {2: 1_500}),
            "with Parsl's kernel",
        ),
        (
            Kernels(),
            changed(KERNELS, "native kernel over HTEX", {4: 8_001}),
            "a native kernel has its",
        ),
        (
            Nodes(),
            changed(NODES, "Parsl's kernel over HTEX, 2 nodes", {2: 501}),
            "with few workers one node",
        ),
        (
            Nodes(),
            changed(NODES, "Parsl's kernel over HTEX, 2 nodes", {6: 800}),
            "with more workers both",
        ),
        (
            Dispatch(),
            changed(DISPATCH, "native kernel, direct dispatch", {1: 69_000}),
            "with one worker that has",
        ),
        (
            Dispatch(),
            changed(DISPATCH, "native kernel, direct dispatch", {4: 140_001}),
            "both together have their",
        ),
        (
            Dispatch(),
            changed(DISPATCH, "Parsl's kernel, direct dispatch", {4: 8_000}),
            "neither direct dispatch",
        ),
        (
            Dispatch(),
            changed(DISPATCH, "native kernel, direct dispatch", {1: 80_000}),
            "neither direct dispatch",
        ),
        (
            Dispatch(),
            changed(DISPATCH, "Parsl's kernel, direct dispatch", {1: 3_900}),
            "direct dispatch alone has",
        ),
        (Granularity(), changed(GRANULARITY, "parsl on 1", {"10": 600}), "Parsl runs tasks of 0"),
        (
            Granularity(),
            changed(GRANULARITY, "parsl on 1", {"1,000": 600}),
            "with Parsl tasks of a",
        ),
        (
            Granularity(),
            changed(GRANULARITY, "parsl on 2", {"10,000": 900}),
            "with Parsl tasks of a",
        ),
        (Granularity(), changed(GRANULARITY, "dask on 2", {"1,000": 400}), "Dask runs tasks"),
        (Granularity(), changed(GRANULARITY, "ray on 2", {"1,000": 1_000}), "with Ray the rate"),
        (Inference(), changed(INFERENCE, "serial", {10: 33}), "all are fastest"),
        (Inference(), changed(INFERENCE, "parsl on 2", {1_000: 12}), "at its fastest Parsl takes"),
        (
            Inference(),
            changed(INFERENCE, "gristmill-parsl on 1", {1_000: 1.5}),
            "with a native kernel two workers",
        ),
        (Inference(), changed(INFERENCE, "parsl on 1", {1: 39}), "Parsl with one worker"),
        (
            Inference(),
            changed(INFERENCE, "gristmill-parsl on 2", {1: 1.2}),
            "a molecule a task costs",
        ),
    ],
)
def test_a_relation_does_not_hold_in_data_that_break_it(
    figure: Figure, values: Values, broken: str
) -> None:
    (relation,) = [one for one in figure.relations if one.text.startswith(broken)]
    assert relation.verdict(data_of(figure, values))[0] == "does not hold"


def test_the_shortest_tasks_are_compared_with_those_that_are_here() -> None:
    (relation,) = [one for one in Shortest.relations if one.text.startswith("Gristmill is good")]
    here = {name: SHORTEST[name] for name in ("gristmill", "pool", "loky")}
    assert relation.verdict(data_of(Shortest(), here)) == ("holds", "10x pool, 10x loky")
    shorter = changed(here, "loky", {"METG(50 %)": 9.0})
    assert relation.verdict(data_of(Shortest(), shorter))[0] == "does not hold"
    alone = {"gristmill": SHORTEST["gristmill"]}
    assert relation.verdict(data_of(Shortest(), alone))[0] == "not measured"


def test_rates_by_length_are_measured_in_one_run() -> None:
    app = App(busy_us=(0, 100), seconds=0.002)
    result = app.run(Engine(Inline().open()), Path())
    assert "/s of 100 us" in app.check(result)
    figures = app.figures(result)
    assert figures.keys() == {rate_name(0), rate_name(100)}
    assert 0 < figures[rate_name(100)] <= 1e6 / 100, "tasks of 100 us, one after the other"
    for wrong in (result[0].results[::-1], result[0].results[1:]):
        with pytest.raises(WrongResult, match="tasks of 0 us returned"):
            app.check([result[0]._replace(results=wrong)])


@pytest.mark.parametrize(
    ("figure", "figures", "values"),
    [
        (Kernels(), {rate_name(0): 7.0}, {("one", 2): 7.0}),
        (Shortest(), {"metg_us": 8.0}, {("one", 2): 8.0}),
        (
            Granularity(),
            {rate_name(one): one + 1 for one in (0, 1, 10, 1_000, 10_000)},
            {("one", place): float(place.replace(",", "")) + 1 for place in LENGTHS},
        ),
        (
            Inference(),
            {"screening_s": 9.0} | {f"screening_by_{one}_s": float(one) for one in SIZES},
            {("one", one): float(one) for one in SIZES},
        ),
    ],
    ids=lambda one: one.key if isinstance(one, Figure) else "",
)
def test_a_figure_shows_what_its_runs_have_measured(
    figure: Figure, figures: dict[str, float], values: dict[tuple[str, Place], float]
) -> None:
    samples: Callable[..., list[tuple[str, Place, float]]] = figure.samples  # type: ignore[attr-defined]
    found = {(one[0], one[1]): one[2] for one in samples({"figures": figures}, Point("one", 2, {}))}
    assert found == values
