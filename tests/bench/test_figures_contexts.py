"""The relations of the figures about contexts mean what the paper means, and their runs are valid."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

from gristmill_bench import BenchError, config
from gristmill_bench.figures import catalogue
from gristmill_bench.figures.contexts import FIGURES, machines
from gristmill_bench.figures.data import Data, Place
from gristmill_bench.figures.figure import Sweep
from gristmill_bench.figures.session import Session, Tables

#: Values of each series by their position on the x-axis.
Values = Mapping[str, Mapping[Place, float]]
KEYS = [figure.key for figure in FIGURES]
POINTS = [
    (f"{point.series} at {point.at}", point.tables)
    for figure in FIGURES
    if isinstance(figure, Sweep)
    for point in figure.points()
]
MS, NUMBER = machines._TIME, machines._PART
STEPS = (1, 2, 5, 10, 20, 50, 100, 200, 500, 1_000, 2_000)


def made_up(values: Values) -> Data:
    data = Data("made up", "", "")
    for series, places in values.items():
        for place, value in places.items():
            data.add(series, place, value)
    return data


def levels(**seconds: list[float]) -> Values:
    """Returns seconds of each level: three of them, at the positions of figure 8 or of figure 9."""
    return {name: dict(zip((16, 80, 320), found, strict=True)) for name, found in seconds.items()}


def pools(**seconds: list[float]) -> Values:
    return {name: dict(zip((1, 2, 4), found, strict=True)) for name, found in seconds.items()}


def table_5(hot: float, invocation: float) -> Values:
    phases = ("until the setup begins", "setup", "inference", "until the result is there")
    return {
        "L2 (hot)": dict.fromkeys(phases, hot / 4),
        "L3 (invocation)": dict.fromkeys(phases, invocation / 4),
    }


PAPER_8 = levels(L1=[6, 7, 10], L2=[4, 5, 10], L3=[1, 3, 9])
PAPER_9 = pools(L1=[9, 8, 7], L2=[8, 7, 6], L3=[5, 4, 4])
CASES: list[tuple[str, int, Values, bool]] = [
    ("contexts-table-1", 0, {"task": {"bytes sent for a call": 500_100}}, True),
    ("contexts-table-1", 0, {"task": {"bytes sent for a call": 499_999}}, False),
    ("contexts-table-1", 1, {"invocation": {"bytes sent for a call": 300}}, True),
    ("contexts-table-1", 1, {"invocation": {"bytes sent for a call": 500_100}}, False),
    ("contexts-table-1", 2, {"task": {"setups": 10}}, True),
    ("contexts-table-1", 3, {"invocation": {"setups": 2}}, False),
    ("contexts-table-2", 2, {"task": {"for a worker": 1}, "invocation": {"for a worker": 2}}, True),
    (
        "contexts-table-2",
        2,
        {"task": {"for a worker": 1}, "invocation": {"for a worker": 3}},
        False,
    ),
    ("contexts-table-2", 4, {"invocation": {"for a call": 1e-4}}, True),
    ("contexts-table-2", 4, {"invocation": {"for a call": 3e-3}}, False),
    ("contexts-3", 0, {"sent by the program": {"only the program gives": 6}}, True),
    ("contexts-3", 0, {"sent by the program": {"only the program gives": 5}}, False),
    ("contexts-3", 1, {"sent by the program": {"nodes give as well": 2}}, True),
    ("contexts-3", 1, {"sent by the program": {"nodes give as well": 6}}, False),
    ("contexts-3", 2, {"into one group, at least": {"nodes of a group give": 1}}, True),
    ("contexts-3", 2, {"into one group, at least": {"nodes of a group give": 2}}, False),
    ("contexts-table-3", 0, {MS: {"group 2": 100, "groups 3 to 5": 280}}, True),
    ("contexts-table-3", 0, {MS: {"group 2": 100, "groups 3 to 5": 110}}, False),
    ("contexts-table-3", 1, {NUMBER: {"group 1": 4, "group 2": 5, "groups 3 to 5": 2}}, True),
    ("contexts-table-3", 1, {NUMBER: {"group 1": 5, "group 2": 4, "groups 3 to 5": 2}}, False),
    ("contexts-table-3", 1, {NUMBER: {"group 1": 4, "group 2": 4, "groups 3 to 5": 4}}, False),
    ("contexts-8", 0, PAPER_8, True),
    ("contexts-8", 0, levels(L1=[6, 7, 9], L2=[1.9, 5, 9], L3=[1, 3, 8]), False),
    ("contexts-8", 1, PAPER_8, True),
    ("contexts-8", 1, levels(L2=[4, 5, 9], L3=[1, 1, 1]), False),
    ("contexts-9", 0, PAPER_9, True),
    ("contexts-9", 0, pools(L1=[9, 9, 9], L2=[8, 7, 6]), False),
    ("contexts-9", 1, PAPER_9, True),
    ("contexts-9", 1, pools(L3=[4, 2, 2]), False),
    ("contexts-9", 2, PAPER_9, True),
    ("contexts-9", 2, pools(L1=[9, 8, 4], L2=[8, 7, 6], L3=[5, 4, 4]), False),
    ("contexts-10", 0, {"a context": {1: 2, 200: 6, 2_000: 8}}, True),
    ("contexts-10", 0, {"a context": {1: 8, 200: 8, 2_000: 8}}, False),
    ("contexts-10", 0, {"a context": {1: 1, 200: 2, 2_000: 8}}, False),
    ("contexts-10", 1, {"a context": {1: 8, 2_000: 8}}, True),
    ("contexts-10", 1, {"a context": {1: 9, 2_000: 8}}, False),
    ("contexts-11", 0, {"a context": {step: step / 4 for step in STEPS}}, True),
    ("contexts-11", 0, {"a context": dict.fromkeys(STEPS, 9)}, False),
    ("contexts-11", 1, {"a context": {step: step / 4 for step in STEPS}}, True),
    ("contexts-11", 1, {"a context": {step: 1 / step for step in STEPS}}, False),
    ("contexts-table-5", 4, table_5(hot=2, invocation=1), True),
    ("contexts-table-5", 4, table_5(hot=1.6, invocation=1), False),
]


@pytest.mark.parametrize(
    ("key", "number", "values", "holds"), CASES, ids=lambda one: str(one) if one in KEYS else ""
)
def test_a_relation_holds_of_what_the_paper_shows_only(
    key: str, number: int, values: Values, holds: bool
) -> None:
    found, numbers = catalogue.FIGURES[key].relations[number].check(made_up(values))
    assert found is holds
    assert numbers


def test_all_processes_of_both_kernels_have_to_be_gone() -> None:
    few, ends, killed = (one.check for one in catalogue.FIGURES["contexts-3.6"].relations)
    ours, parsls = "Gristmill's executor and kernel", "Gristmill's executor, Parsl's kernel"
    rows = ("while it runs", "5 s after its end", "5 s after SIGKILL")
    found: Values = {
        ours: dict(zip(rows, (5, 0, 0), strict=True)),
        parsls: dict(zip(rows, (6, 0, 1), strict=True)),
    }
    data = made_up(found)
    assert [check(data)[0] for check in (few, ends, killed)] == [True, True, False]
    data = made_up({ours: found[ours], parsls: {**found[parsls], "while it runs": 7}})
    assert not few(data)[0]


@pytest.mark.parametrize("key", KEYS)
def test_what_was_not_measured_is_not_judged(key: str) -> None:
    for relation in catalogue.FIGURES[key].relations:
        with pytest.raises(LookupError, match="was not measured"):
            relation.check(made_up({}))


@pytest.mark.parametrize(
    ("name", "tables"), [*POINTS, ("groups", machines.tables())], ids=lambda one: str(one)[:20]
)
def test_what_is_run_is_a_configuration_that_can_be(name: str, tables: Tables) -> None:
    try:
        found = config.resolve(tables)
    except BenchError as error:
        if "is not available here" in str(error):
            pytest.skip(str(error))
        raise
    assert found.executor.workers in (2, 3)


def test_calls_are_told_apart_by_the_group_of_their_worker(tmp_path: Path) -> None:
    line = '{"execution": {"group": "%s", "task_start_time": 1.0, "task_end_time": %s}}\n'
    records = tmp_path / "tasks.jsonl"
    records.write_text(line % ("slow", 3.0) + line % ("fast", 1.5) + line % ("slow", 2.0))
    assert machines.by_group(records) == {"slow": [2.0, 1.0], "fast": [0.5]}


@pytest.mark.parametrize("key", ["contexts-table-4", "contexts-8", "contexts-table-5"])
def test_what_is_not_installed_is_missing_by_name(
    key: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from gristmill_bench.apps.lnni import Lnni

    monkeypatch.setattr(Lnni, "missing", classmethod(lambda cls: "pip install onnx"))
    data = catalogue.FIGURES[key].measure(Session(tmp_path, 1))
    assert not data.cells
    assert set(data.missing.values()) == {"pip install onnx"}
