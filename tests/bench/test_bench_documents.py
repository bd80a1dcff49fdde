"""Records in formats that other tools read: WfFormat and traces."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

from gristmill_bench import Engine
from gristmill_bench.ended import Ended, Failure
from gristmill_bench.executors.here import Inline
from gristmill_bench.records.documents import Perfetto, WfFormat


def twice(number: int) -> int:
    return 2 * number


def fail(number: int) -> int:
    raise ValueError(f"no {number}")


def recorded(plugin: WfFormat | Perfetto, folder: Path) -> Any:
    """Records a chain of two tasks, a task that needs both, and a task that fails; returns the document."""
    records = plugin.open(folder)
    engine = Engine(Inline().open(), records=records)
    first = engine.submit(twice, 1)
    second = engine.submit(twice, first)
    engine.submit(max, first, second)
    engine.submit(fail, 7)
    records.close()
    return json.loads((folder / plugin.file).read_text())


def test_a_workflow_has_its_graph_and_the_run_time_of_each_task(tmp_path: Path) -> None:
    found = recorded(WfFormat(), tmp_path)
    assert found["schemaVersion"] == "1.5"
    tasks = {one["id"]: one for one in found["workflow"]["specification"]["tasks"]}
    assert {name: (one["parents"], one["children"]) for name, one in tasks.items()} == {
        "twice.0": ([], ["twice.1", "max.2"]),
        "twice.1": (["twice.0"], ["max.2"]),
        "max.2": (["twice.0", "twice.1"], []),
        "fail.3": ([], []),
    }
    assert all(re.fullmatch(r"[0-9a-zA-Z-_.]+", name) for name in tasks)
    runs = found["workflow"]["execution"]
    assert [one["id"] for one in runs["tasks"]] == list(tasks)
    assert all(0 <= one["runtimeInSeconds"] <= runs["makespanInSeconds"] for one in runs["tasks"])
    machines = {one["nodeName"] for one in runs["machines"]}
    assert {name for one in runs["tasks"] for name in one.get("machines", ())} == machines
    assert [one.get("failed", False) for one in runs["tasks"]] == [False, False, False, True]


def test_machines_are_those_that_ran_a_task(tmp_path: Path) -> None:
    records = WfFormat().open(tmp_path)
    records.note(Ended("far", 0, (), 1.0, 2.0, None, "elsewhere", 7, 1.0, 1.25, 1.75, 2.0))
    records.note(Ended("bad", 1, (), 1.0, 2.0, Failure("ValueError", "no", "")))
    records.close()
    runs = json.loads((tmp_path / "workflow.json").read_text())["workflow"]["execution"]
    assert runs["machines"] == [{"nodeName": "elsewhere"}]
    far, bad = runs["tasks"]
    assert (far["machines"], far["runtimeInSeconds"]) == (["elsewhere"], 0.5)
    assert ("machines" in bad, bad["runtimeInSeconds"]) == (False, 0.0)


def test_a_workflow_none_of_whose_tasks_ran_has_no_machines(tmp_path: Path) -> None:
    records = WfFormat().open(tmp_path)
    records.note(Ended("bad", 0, (), 1.0, 2.0, Failure("ValueError", "no", "")))
    records.close()
    runs = json.loads((tmp_path / "workflow.json").read_text())["workflow"]["execution"]
    assert "machines" not in runs, "the schema has no empty list"


def test_a_trace_has_a_slice_for_each_task_and_an_arrow_for_each_dependency(tmp_path: Path) -> None:
    events = recorded(Perfetto(), tmp_path)["traceEvents"]
    slices = {one["args"]["task"]: one for one in events if one["ph"] == "X" and "args" in one}
    assert [slices[number]["name"] for number in range(4)] == ["twice", "twice", "max", "fail"]
    assert slices[3]["args"]["error"] == "ValueError: no 7"
    begins = {one["id"]: one["ts"] for one in events if one["ph"] == "s"}
    ends = {one["id"]: one["ts"] for one in events if one["ph"] == "f"}
    assert set(begins) == set(ends) == {"0-1", "0-2", "1-2"}
    assert all(begins[arrow] <= ends[arrow] for arrow in begins)
    assert all(one["dur"] >= 0 for one in slices.values())
