"""A task's record, as the mapping that Parsl's interface has."""

from __future__ import annotations

import copy
import datetime
import json
import pickle
from typing import Any

import pytest

from gristmill.parsl import DataFlowKernel, python_app
from gristmill.parsl.dataflow.states import States
from gristmill.parsl.dataflow.taskrecord import TaskRecord

import calls
from stage import Gate

#: All keys of Parsl's mapping.
KEYS = [
    "dfk",
    "func_name",
    "status",
    "depends",
    "app_fu",
    "exec_fu",
    "executor",
    "fail_count",
    "fail_cost",
    "fail_history",
    "checkpoint",
    "hashsum",
    "task_launch_lock",
    "func",
    "args",
    "kwargs",
    "time_invoked",
    "time_returned",
    "try_time_launched",
    "try_time_returned",
    "memoize",
    "ignore_for_cache",
    "from_memo",
    "id",
    "try_id",
    "resource_specification",
    "join",
    "joins",
    "join_lock",
]


def blank(number: int) -> TaskRecord:
    return TaskRecord(
        id=number,
        dfk=None,
        executor="here",
        func=print,
        func_name="print",
        args=(),
        kwargs={},
        resource_specification={},
    )


@python_app
def add(left: int, right: int = 1, inputs: Any = ()) -> int:
    return left + right


@python_app
def enter(path: str, inputs: Any = ()) -> None:
    calls.enter(path)


@python_app
def divide(left: int, right: int, inputs: Any = ()) -> float:
    return left / right


WAYS = pytest.mark.parametrize("named", [{}, {"inputs": [0]}], ids=["fast_path", "graph"])


@WAYS
def test_the_record_of_a_future_has_its_call(kernel: DataFlowKernel, named: Any) -> None:
    first = add(1)
    future = add(first, right=2, **named)
    record = future.task_record
    assert record["id"] == future.tid
    assert record["app_fu"] is future
    assert record["dfk"] is kernel
    assert record["executor"] == "here"
    assert record["func_name"] == "add"
    assert record["kwargs"]["right"] == 2
    assert not record["memoize"]
    assert not record["join"]
    assert future.result() == 4
    record = future.task_record
    assert record["status"] is States.exec_done
    assert (record["try_id"], record["fail_count"]) == (0, 0)


def test_times_are_dates_in_order(kernel: DataFlowKernel) -> None:
    before = datetime.datetime.now()
    future = add(1, inputs=[0])
    future.result()
    names = ("time_invoked", "try_time_launched", "try_time_returned", "time_returned")
    times = [future.task_record[name] for name in names]
    assert before <= times[0]
    assert times == sorted(times)
    assert all(isinstance(one, datetime.datetime) for one in times)


def test_it_is_a_dict() -> None:
    record = blank(3)
    assert isinstance(record, dict)
    assert record["id"] == 3
    record["executor"] = "elsewhere"
    assert record.get("executor") == "elsewhere"
    assert record.get("nonsense") is None
    assert len(record) == len(list(record))
    with pytest.raises(KeyError):
        record["nonsense"]
    record["notes"] = ["the program's own"]
    assert record.copy()["notes"] == ["the program's own"]
    assert {**record}["func_name"] == "print"
    assert record | {"id": 4} == {**record, "id": 4}
    del record["notes"]
    assert "notes" not in record


def test_copies_are_dicts_and_can_be_pickled_without_what_is_of_this_process() -> None:
    record = blank(3)
    for copied in (record.copy(), copy.copy(record), dict(record)):
        assert type(copied) is dict
        assert copied == record
        del copied["task_launch_lock"]
        assert pickle.loads(pickle.dumps(copied)) == copied
    assert json.loads(json.dumps(record, default=str))["func_name"] == "print"


def test_every_key_of_parsls_can_be_written_and_read() -> None:
    record = blank(0)
    for key in KEYS:
        value = datetime.datetime(2026, 1, 2, 3) if "time" in key else object()
        record[key] = value
        assert record[key] == value


@WAYS
def test_a_record_has_parsls_keys(kernel: DataFlowKernel, named: Any) -> None:
    future = add(1, **named)
    future.result()
    # Parsl sets these two keys only for the tasks that use them.
    assert set(future.task_record) == set(KEYS) - {"checkpoint", "join_lock"}


@WAYS
def test_what_a_program_writes_into_a_record_stays(kernel: DataFlowKernel, named: Any) -> None:
    future = add(1, **named)
    assert future.task_record is future.task_record
    future.task_record["notes"] = "mine"
    future.result()
    assert future.task_record["notes"] == "mine"
    assert future.task_record.copy()["notes"] == "mine"


@WAYS
def test_a_record_says_what_has_become_of_the_task_since(
    kernel: DataFlowKernel, gate: Gate, named: Any
) -> None:
    waiting = enter(gate.path, **named)
    record = waiting.task_record
    assert record["status"] in (States.pending, States.launched)
    gate.open()
    waiting.result()
    for copied in (record.copy(), dict(record), {**record}, dict(record.items())):
        assert copied["status"] is States.exec_done
    assert sum(value is States.exec_done for value in record.values()) == 1
    assert record.get("status") is States.exec_done
    assert "exec_done" in repr(record)


@WAYS
def test_the_record_of_a_failure_counts_it(kernel: DataFlowKernel, named: Any) -> None:
    failing = divide(1, 0, **named)
    failing.exception()
    record = failing.task_record
    assert (record["fail_count"], record["fail_cost"], record["try_id"]) == (1, 1, 0)
    assert record["fail_history"] == [repr(failing.exception())]
    assert record["status"] is States.failed


@WAYS
def test_a_task_whose_argument_failed_counts_that_as_its_failure(
    kernel: DataFlowKernel, named: Any
) -> None:
    dependant = add(divide(1, 0), **named)
    error = dependant.exception()
    record = dependant.task_record
    assert (record["fail_count"], record["fail_cost"], record["try_id"]) == (1, 1, 0)
    assert record["fail_history"] == [repr(error)]
    assert record["status"] is States.dep_fail


def test_arguments_are_a_list_once_a_task_was_launched(kernel: DataFlowKernel) -> None:
    future = add(add(-1), inputs=[0])
    future.result()
    assert future.task_record["args"] == [0]
