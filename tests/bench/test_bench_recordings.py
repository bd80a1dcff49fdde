"""Recorded runs are read from the formats of several recorders, and impossible records are refused by name."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gristmill_bench import BenchError, Engine
from gristmill_bench.ended import Ended, Failure
from gristmill_bench.executors.here import Inline
from gristmill_bench.records.base import RecordsPlugin
from gristmill_bench.records.documents import Perfetto, WfFormat
from gristmill_bench.records.lines import JsonLines
from gristmill_bench.replay.formats import read
from gristmill_bench.replay.recording import Row, arrange

from recorded import line, workflow, write_lines


def grow(count: int, *before: bytes) -> bytes:
    return bytes(count)


@pytest.mark.parametrize(
    ("plugin", "has"),
    [
        (JsonLines(sizes=True), (True, True)),
        (WfFormat(sizes=True), (False, True)),
        (JsonLines(), (True, False)),
        (WfFormat(), (False, False)),
        (Perfetto(), (False, False)),
    ],
    ids=lambda one: type(one).__name__,
)
def test_what_our_records_write_is_read(
    plugin: RecordsPlugin, has: tuple[bool, bool], tmp_path: Path
) -> None:
    records = plugin.open(tmp_path)
    engine = Engine(Inline().open(), records=records, sizes=plugin.sizes)
    first = engine.submit(grow, 1_000)
    engine.submit(grow, 10, first, engine.submit(grow, 0, first))
    records.close()
    found = read(tmp_path)
    assert [task.parents for task in found.tasks] == [(), (0,), (0, 1)]
    assert {task.function for task in found.tasks} == {"grow"}
    assert (found.has_arrivals, found.has_sizes) == has
    assert found.makespan is not None
    assert 0 < found.critical_path <= found.makespan
    if has[1]:
        first_size, second_size, _ = (task.size for task in found.tasks)
        assert 1_000 <= first_size <= 1_050
        assert 0 < second_size <= 50


@pytest.mark.parametrize(
    "plugin", [JsonLines(), WfFormat(), Perfetto()], ids=lambda one: type(one).__name__
)
def test_what_has_failed_takes_no_time_whatever_recorded_it(
    plugin: RecordsPlugin, tmp_path: Path
) -> None:
    records = plugin.open(tmp_path)
    good, bad = (0, ()), (1, (0,))
    steps = ("here", 7, 102.0, 102.0, 103.0, 103.0)
    records.note(Ended("good", *good, 100.0, 104.0, None, *steps))
    records.note(Ended("bad", *bad, 100.0, 109.0, Failure("ValueError", "no", "")))
    records.close()
    found = read(tmp_path)
    assert [(task.function, task.seconds) for task in found.tasks] == [
        ("good", pytest.approx(1.0)),
        ("bad", 0.0),
    ]
    assert found.failed == 1


def test_the_makespan_of_a_trace_is_from_the_first_submission(tmp_path: Path) -> None:
    records = Perfetto().open(tmp_path)
    steps = ("here", 7, 102.0, 102.0, 103.0, 103.0)
    records.note(Ended("late", 0, (), 100.0, 103.0, None, *steps))
    records.close()
    assert read(tmp_path).makespan == pytest.approx(3.0)


def test_a_workflow_has_its_tasks_with_the_bytes_that_they_wrote(tmp_path: Path) -> None:
    document = workflow(
        {"join_3": (3.0, ["left_1", "right_2"]), "left_1": (1.0, []), "right_2": (2.0, [])},
        {"left_1": 70, "right_2": 30},
    )
    (tmp_path / "it.json").write_text(json.dumps(document))
    found = read(tmp_path / "it.json")
    tasks = {task.name: task for task in found.tasks}
    assert [task.name for task in found.tasks] == ["left_1", "right_2", "join_3"]
    assert (tasks["left_1"].size, tasks["join_3"].size) == (70, 0)
    assert tasks["join_3"].function == "join"
    assert (found.work, found.critical_path, found.makespan) == (6.0, 5.0, 9.0)
    assert (found.bound(1), found.bound(2)) == (6.0, 5.0)


def test_tasks_come_in_the_order_in_which_they_were_submitted(tmp_path: Path) -> None:
    file = write_lines(
        tmp_path / "tasks.jsonl",
        line("late", 1.0, at=103.0),
        line("early", 1.0, at=100.0),
        line("failed", at=101.0, failed=True),
    )
    found = read(file)
    assert [(task.name, task.submitted) for task in found.tasks] == [
        ("early", 0.0),
        ("failed", 1.0),
        ("late", 3.0),
    ]
    assert (found.failed, found.makespan) == (1, 4.0)
    write_lines(file, line("other", 2.0))
    assert read(file).tasks[0].name == "other", "a file that has changed is read again"


BAD = [
    ([line("a"), line("a")], "there are two tasks 'a'"),
    ([line("a", parents=["b"])], "task 'a' needs 'b', which is not there"),
    ([line("a", parents=["a"])], "task 'a' needs itself"),
    (
        [line("x"), line("a", parents=["c"]), line("b", parents=["a"]), line("c", parents=["b"])],
        "task 'a' needs itself, by way of 'c', 'b'",
    ),
    ([line("a", -1.0)], "task 'a' ran for -1.0 s"),
    ([line("a", 1e300)], "task 'a' ran for 1e+300 s"),
    ([line("a", at=-2.0)], "task 'a' was submitted at -2.0 s"),
    ([line("a", size=-1)], "the result of task 'a' has -1 bytes"),
    ([line("a") | {"submit_time": "now"}], "line 1: Expected `float`, got `str`"),
    ([line("a"), {"task_id": "b"}], "line 2: Object missing required field `name`"),
    ([], "there is no task"),
]


@pytest.mark.parametrize(("lines", "says"), BAD)
def test_lines_that_cannot_be_are_refused(
    lines: list[dict[str, Any]], says: str, tmp_path: Path
) -> None:
    file = write_lines(tmp_path / "tasks.jsonl", *lines)
    with pytest.raises(BenchError) as refused:
        read(file)
    assert str(refused.value).startswith(str(file))
    assert says in str(refused.value)


def _changed(change: str) -> bytes:
    document = workflow({"a": (1.0, []), "b": (1.0, ["a"])})
    inner = document["workflow"]
    match change:
        case "version":
            document["schemaVersion"] = "1.3"
        case "plan":
            del inner["execution"]
        case "lost":
            inner["execution"]["tasks"].pop()
        case "twice":
            inner["execution"]["tasks"].append({"id": "a", "runtimeInSeconds": 2.0})
        case "circle":
            inner["specification"]["tasks"][0]["parents"] = ["b"]
        case "makespan":
            inner["execution"]["makespanInSeconds"] = -1.0
    return json.dumps(document).encode()


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (_changed("version"), "is of WfFormat 1.3; what can be read is 1.5 and 1.6"),
        (_changed("plan"), "was not run: it has no execution"),
        (_changed("lost"), "task 'b' is specified and was not executed"),
        (_changed("twice"), "task 'a' was executed twice"),
        (_changed("circle"), "task 'a' needs itself, by way of 'b'"),
        (_changed("makespan"), "the makespan is -1.0 s"),
        (b'{"workflow": 3, "schemaVersion": "1.5"}', "Expected `object`, got `int`"),
        (b'{"traceEvents": [{"ph": "M"}]}', "is no trace of our records: it has no tasks"),
        (
            b'{"traceEvents": [{"ph": "X", "name": "a", "args": {"task": 0}}]}',
            "is no trace of our records: KeyError('dur')",
        ),
        (
            b'{"traceEvents": [{"ph": "X", "ts": 0, "dur": 1, "args": "task"}]}',
            "is no trace of our records: AttributeError",
        ),
        (
            b'{"traceEvents": [{"ph": "X", "args": {"task": 0}, "dur": 1%s}]}' % (b"0" * 400),
            "too large",
        ),
        (b'{"traceEvents": [{"args": %s' % (b"[" * 100_000), "recursion depth"),
        (b'{"x": "\xff", "traceEvents": []}', "it has no tasks"),
        (b'{"schemaVersion": "\xff"}', "invalid start byte"),
        (b"{}", "is no recorded run"),
        (b"\xff\xfe", "JSON is malformed"),
    ],
)
def test_documents_that_cannot_be_are_refused(content: bytes, says: str, tmp_path: Path) -> None:
    (tmp_path / "it.json").write_bytes(content)
    with pytest.raises(BenchError) as refused:
        read(tmp_path / "it.json")
    assert says in str(refused.value)


def test_lines_that_are_no_text_are_refused_and_empty_ones_are_passed_over(tmp_path: Path) -> None:
    file = tmp_path / "tasks.jsonl"
    whole = json.dumps(line("a")).encode()
    file.write_bytes(b"\n" + whole + b"\r\n\n")
    assert [task.name for task in read(file).tasks] == ["a"]
    file.write_bytes(whole + b"\n" + whole.replace(b'"a"', b'"\xff"'))
    with pytest.raises(BenchError, match=r"tasks.jsonl, line 2: .*invalid start byte"):
        read(file)


def test_a_function_of_a_trace_has_a_name_whatever_stands_there(tmp_path: Path) -> None:
    event = {"ph": "X", "name": [1], "ts": 1, "dur": 1, "args": {"task": 0, "parents": []}}
    (tmp_path / "it.json").write_text(json.dumps({"traceEvents": [event]}))
    assert read(tmp_path / "it.json").tasks[0].function == "[1]"


def test_a_folder_without_a_record_says_what_is_looked_for(tmp_path: Path) -> None:
    with pytest.raises(BenchError, match=r"has no tasks.jsonl, workflow.json, trace.json"):
        read(tmp_path)
    with pytest.raises(BenchError, match="No such file"):
        read(tmp_path / "nowhere")


@given(st.lists(st.tuples(st.floats(0, 10), st.lists(st.integers(0, 19), max_size=3)), max_size=20))
def test_any_rows_are_put_behind_their_parents_or_refused(
    drawn: list[tuple[float, list[int]]],
) -> None:
    rows = [
        Row(str(place), "f", seconds, [str(one) for one in parents], seconds)
        for place, (seconds, parents) in enumerate(drawn)
    ]
    try:
        found = arrange(Path("it"), rows)
    except BenchError:
        return
    assert sorted(task.name for task in found.tasks) == sorted(row.name for row in rows)
    for place, task in enumerate(found.tasks):
        assert all(parent < place for parent in task.parents)
        named = [found.tasks[parent].name for parent in task.parents]
        assert named == list(rows[int(task.name)].parents)
    times = [task.submitted for task in found.tasks]
    assert times == sorted(times)
