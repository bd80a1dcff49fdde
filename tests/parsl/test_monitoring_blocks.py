"""Records of blocks and nodes that Parsl's own executors report."""

from __future__ import annotations

import datetime
import queue
import threading
from typing import Any

import pytest

from gristmill.parsl._kernel.monitoring import blocks as blocks_module
from gristmill.parsl._kernel.monitoring.blocks import Blocks

pytest.importorskip("parsl.version")
from parsl.monitoring.message_type import MessageType

NOW = datetime.datetime(2026, 11, 22, 4, 5, 6)
NODE = {
    "run_id": "run",
    "hostname": "here",
    "uid": "dd49",
    "block_id": "0",
    "cpu_count": 8,
    "total_memory": 2**35,
    "active": True,
    "worker_count": 4,
    "python_v": "3.11.7",
    "timestamp": NOW,
    "last_heartbeat": NOW,
}
BLOCK = {
    "run_id": "run",
    "executor_label": "htex",
    "block_id": "0",
    "job_id": None,
    "timestamp": NOW,
    "status": "PENDING",
}
TEXT = "2026-11-22 04:05:06.000000"


def recorded(*messages: Any) -> list[tuple[str, dict[str, Any]]]:
    rows: list[tuple[str, dict[str, Any]]] = []
    blocks = Blocks(lambda table, row: rows.append((table, row)))
    for message in messages:
        blocks.messages.put(message)
    blocks.close()
    return rows


def test_nodes_and_blocks_are_rows() -> None:
    more = {"draining": False, "packages": ["numpy"]}
    rows = recorded(
        (MessageType.NODE_INFO, {**NODE, **more}),
        (MessageType.BLOCK_INFO, [BLOCK, {**BLOCK, "status": "RUNNING"}]),
    )
    assert rows == [
        ("node", {**NODE, "timestamp": TEXT, "last_heartbeat": TEXT}),
        ("block", {**BLOCK, "timestamp": TEXT}),
        ("block", {**BLOCK, "timestamp": TEXT, "status": "RUNNING"}),
    ]


def test_a_message_that_cannot_be_read_is_logged_and_the_next_one_is_not_lost(
    caplog: pytest.LogCaptureFixture,
) -> None:
    rows = recorded(
        "no message",
        (MessageType.NODE_INFO, {"hostname": "here"}),
        (MessageType.BLOCK_INFO, [BLOCK]),
    )
    assert [table for table, _ in rows] == ["block"]
    assert caplog.text.count("could not be recorded") == 2


def test_messages_of_other_kinds_are_ignored() -> None:
    assert recorded((MessageType.RESOURCE_INFO, {"task_id": 1})) == []


def test_a_process_that_reports_too_much_waits_until_it_is_recorded(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(blocks_module, "_WAITING_MAX", 2)
    begun, go_on = threading.Event(), threading.Event()
    rows: list[str] = []

    def add(table: str, row: dict[str, Any]) -> None:
        begun.set()
        go_on.wait()
        rows.append(table)

    blocks = Blocks(add)
    message = (MessageType.BLOCK_INFO, [BLOCK])
    blocks.messages.put(message)
    begun.wait()
    for _ in range(2):
        blocks.messages.put(message)
    with pytest.raises(queue.Full):
        blocks.messages.put(message, block=False)
    go_on.set()
    blocks.close()
    assert rows == ["block"] * 3
