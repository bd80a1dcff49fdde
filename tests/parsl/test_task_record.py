"""What is known of a task, as the mapping that Parsl hands out."""

from __future__ import annotations

import datetime
import threading
from typing import Any

import pytest

from gristmill import DataFlowKernel, python_app
from gristmill.parsl.states import States
from gristmill.parsl.tasks import TaskRecord

#: All of Parsl's.
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


WAYS = pytest.mark.parametrize("named", [{}, {"inputs": [0]}], ids=["lane", "graph"])


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


def test_it_is_a_mapping() -> None:
    record = blank(3)
    assert record["id"] == 3
    record["executor"] = "elsewhere"
    assert record.get("executor") == "elsewhere"
    assert "hashsum" in record
    assert record.get("nonsense") is None
    assert dict(record)["func_name"] == "print"
    assert len(record) == len(list(record))
    with pytest.raises(KeyError):
        record["nonsense"]
    with pytest.raises(KeyError, match="nonsense"):
        record["nonsense"] = 1
    with pytest.raises(TypeError):
        del record["id"]
    assert record in {record}


def test_every_key_of_parsls_can_be_written_and_read() -> None:
    record = blank(0)
    for key in KEYS:
        value = datetime.datetime(2026, 1, 2, 3) if "time" in key else object()
        record[key] = value
        assert record[key] == value


def test_locks_and_history_are_made_when_they_are_asked_for() -> None:
    record = blank(0)
    assert record["join_lock"] is record["join_lock"]
    assert isinstance(record["task_launch_lock"], type(threading.Lock()))
    record["fail_history"].append("failed")
    assert record["fail_history"] == ["failed"]
